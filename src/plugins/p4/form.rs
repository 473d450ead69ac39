//! The form of a client workspace: what a guest may say in it, and what is the host's to say.

use std::fmt::Write as _;
use std::path::Path;

use super::arguments::CLIENT;

/// What a guest writes where the host puts the workspace's directory.
pub(crate) const ROOT: &str = "{root}";

/// The options of a client workspace that p4 knows.
const OPTIONS: [&str; 14] = [
    "allwrite",
    "noallwrite",
    "clobber",
    "noclobber",
    "compress",
    "nocompress",
    "unlocked",
    "locked",
    "modtime",
    "nomodtime",
    "rmdir",
    "normdir",
    "noaltsync",
    "altsync",
];
const LONGEST: usize = 4096;

/// Reads a guest's form and writes it anew, with the host's name and root. Nothing but the fields here is taken over:
/// a `Host`, a `View` or an `AltRoots` could lead out of the workspace.
///
/// # Errors
/// A sentence for the plugin's author.
pub(crate) fn complete(form: &[u8], client: &str, root: &Path) -> Result<String, String> {
    let text = std::str::from_utf8(form).ok().filter(|text| text.len() <= LONGEST).ok_or("the form is too long, or no text")?;
    let root = root.to_str().ok_or("the workspace's path is no text")?;
    let (mut out, mut has_client, mut has_root) = (String::new(), false, false);
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (field, value) = line.split_once(":\t").ok_or_else(|| format!("the line `{line}` is no field of a form"))?;
        if value.chars().any(char::is_control) {
            return Err(format!("the field {field} contains control characters"));
        }
        let value = match (field, value) {
            ("Client", CLIENT) => {
                has_client = true;
                client.to_owned()
            }
            ("Root", ROOT) => {
                has_root = true;
                quoted(root).ok_or("the workspace's path contains a quotation mark")?
            }
            ("Description", _) => format!("\n\t{value}"),
            ("Options", _) if value.split(' ').all(|option| OPTIONS.contains(&option)) => value.to_owned(),
            ("LineEnd", "local" | "unix" | "share") => value.to_owned(),
            ("Stream", _) if is_stream(value) => quoted(value).ok_or("the stream contains a quotation mark")?,
            _ => return Err(format!("`{line}` may not stand in the form")),
        };
        let _ = writeln!(out, "{field}:\t{value}\n");
    }
    if has_client && has_root { Ok(out) } else { Err("the form lacks its client or its root".to_owned()) }
}

fn is_stream(value: &str) -> bool {
    value.strip_prefix("//").is_some_and(|rest| {
        !rest.contains(['@', '#', '*', '%', '\\', ' '])
            && !rest.contains("...")
            && rest.split('/').all(|part| !matches!(part, "" | "." | ".."))
    })
}

fn quoted(value: &str) -> Option<String> {
    match value {
        _ if value.contains('"') => None,
        _ if value.contains(|character: char| character.is_whitespace() || character == '#') => Some(format!("\"{value}\"")),
        _ => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_root_are_the_hosts() {
        let form = "Client:\t{client}\nRoot:\t{root}\nDescription:\tBuilds.\nOptions:\tnoallwrite clobber\nStream:\t//Games/main\n";
        let text = complete(form.as_bytes(), "cookhouse-1", Path::new("/data/my builds/source")).unwrap();
        assert_eq!(
            text,
            "Client:\tcookhouse-1\n\nRoot:\t\"/data/my builds/source\"\n\nDescription:\t\n\tBuilds.\n\nOptions:\tnoallwrite clobber\n\nStream:\t//Games/main\n\n"
        );
        for wrong in [
            "",
            "Client:\tother\nRoot:\t{root}\n",
            "Client:\t{client}\nRoot:\t/etc\n",
            "Client:\t{client}\n",
            "Client:\t{client}\nRoot:\t{root}\nAltRoots:\t/etc\n",
            "Client:\t{client}\nRoot:\t{root}\nHost:\tx\n",
            "Client:\t{client}\nRoot:\t{root}\nView:\n\t//... //x/...\n",
            "Client:\t{client}\nRoot:\t{root}\nOptions:\tclobber x\n",
            "Client:\t{client}\nRoot:\t{root}\nStream:\t//Games/../x\n",
            "Client:\t{client}\nRoot:\t{root}\nStream:\t//Games/main@1\n",
            "Client:\t{client}\nRoot:\t{root}\nDescription:\tx\rRoot:\t/\n",
        ] {
            assert!(complete(wrong.as_bytes(), "c", Path::new("/w")).is_err(), "{wrong}");
        }
        assert!(complete(form.as_bytes(), "c", Path::new("/a\"b")).is_err());
    }
}
