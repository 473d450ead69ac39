//! What `.gitmodules` says, and which of it lies on the same git host.

use guest_support::Address;

use crate::names::{FilePath, RepositoryName};

/// The most of a `.gitmodules` that is read, in bytes.
pub const SIZE_LIMIT: u32 = 256 << 10;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submodule {
    /// Where it belongs, relative to the repository that names it.
    pub path: String,
    /// As it was written.
    pub url: String,
}

/// The entries that have a path and an address. What cannot be read is left out: the index says which ones are missing then.
pub fn read(bytes: &[u8]) -> Vec<Submodule> {
    let text = String::from_utf8_lossy(bytes);
    let (mut found, mut path, mut url) = (Vec::new(), None, None);
    let mut close = |path: &mut Option<String>, url: &mut Option<String>| {
        if let (Some(path), Some(url)) = (path.take(), url.take())
            && FilePath::parse(&path).is_ok()
        {
            found.push(Submodule { path, url });
        }
    };
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            close(&mut path, &mut url);
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value).to_owned();
        match key.trim().to_ascii_lowercase().as_str() {
            "path" => path = Some(value.trim_end_matches('/').to_owned()),
            "url" => url = Some(value),
            _ => {}
        }
    }
    close(&mut path, &mut url);
    found
}

/// The repository behind an address that `parent` gives a submodule, when it lies on the same git host. Addresses of the same host
/// over SSH are understood, too: people write them into `.gitmodules`, and nothing here speaks SSH.
pub fn on_same_host(base: &Address, parent: &RepositoryName, url: &str) -> Option<RepositoryName> {
    let whole = if url.starts_with("./") || url.starts_with("../") { relative(parent, url)? } else { absolute(base, url)? };
    let name = whole.trim_end_matches('/');
    RepositoryName::parse(name.strip_suffix(".git").unwrap_or(name)).ok()
}

/// `../name.git`, as git resolves it against `<owner>/<repository>.git`.
fn relative(parent: &RepositoryName, url: &str) -> Option<String> {
    let mut parts: Vec<&str> = vec![parent.owner(), parent.name()];
    for part in url.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn absolute(base: &Address, url: &str) -> Option<String> {
    if let Some(rest) = strip_prefix(url, base.as_str()) {
        return rest.strip_prefix('/').map(str::to_owned);
    }
    let (_, authority) = base.origin().split_once("://")?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let ssh = url.strip_prefix("ssh://").map(|rest| rest.split_once('/')).unwrap_or_else(|| url.split_once(':'));
    let (place, path) = ssh?;
    let named = place.rsplit_once('@').map_or(place, |(_, named)| named);
    let named = named.rsplit_once(':').map_or(named, |(named, _)| named);
    (named.eq_ignore_ascii_case(host) && !path.starts_with('/')).then(|| path.to_owned())
}

/// Scheme and host are the same in any case.
fn strip_prefix<'a>(url: &'a str, base: &str) -> Option<&'a str> {
    let (head, rest) = url.split_at_checked(base.len())?;
    head.eq_ignore_ascii_case(base).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read() {
        let text =
            b"[submodule \"a\"]\n\tpath = Plugins/A/\n\turl = ../a.git\n\tbranch = main\n# path = x\n[submodule \"half\"]\n\tpath = B\n\
            [submodule \"out\"]\n\tpath = ../out\n\turl = ../b.git\n[submodule \"c\"]\r\n\turl = \"https://host/x/c\"\r\n\tPath=C D\r\n";
        let found: Vec<_> = read(text).into_iter().map(|one| (one.path, one.url)).collect();
        assert_eq!(found, [("Plugins/A".to_owned(), "../a.git".to_owned()), ("C D".to_owned(), "https://host/x/c".to_owned())]);
        assert_eq!(read(b"\xff\xfe nonsense"), []);
    }

    #[test]
    fn only_repositories_of_the_same_host_are_found() {
        let parent = RepositoryName::parse("studio/game").unwrap();
        let plain = Address::parse("https://git.example").unwrap();
        let nested = Address::parse("https://git.example:8443/scm").unwrap();
        for (base, url, wanted) in [
            (&plain, "../plugin.git", Some("studio/plugin")),
            (&plain, "../../tools/plugin", Some("tools/plugin")),
            (&plain, "./x", None),
            (&plain, "../../../etc/passwd", None),
            (&plain, "https://git.example/tools/plugin.git", Some("tools/plugin")),
            (&plain, "HTTPS://Git.Example/tools/plugin/", Some("tools/plugin")),
            (&plain, "git@git.example:tools/plugin.git", Some("tools/plugin")),
            (&plain, "ssh://git@git.example:22/tools/plugin.git", Some("tools/plugin")),
            (&nested, "https://git.example:8443/scm/tools/plugin.git", Some("tools/plugin")),
            (&nested, "https://git.example:8443/tools/plugin.git", None),
            (&plain, "https://git.example.evil/tools/plugin", None),
            (&plain, "https://git.example@evil/tools/plugin", None),
            (&plain, "https://user:pw@git.example/tools/plugin", None),
            (&plain, "https://github.com/tools/plugin", None),
            (&plain, "http://git.example/tools/plugin", None),
            (&plain, "git@evil:tools/plugin", None),
            (&plain, "file:///etc/passwd", None),
            (&plain, "/srv/git/plugin", None),
            (&plain, "ext::sh -c x", None),
            (&plain, "--upload-pack=x", None),
            (&plain, "https://git.example/a/b/c", None),
            (&plain, "", None),
        ] {
            let found = on_same_host(base, &parent, url).map(|name| name.to_string());
            assert_eq!(found.as_deref(), wanted, "{url}");
        }
    }
}
