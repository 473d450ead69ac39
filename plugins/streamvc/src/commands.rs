//! The command lines of p4. The host puts the client workspace in place of [`CLIENT`].

use crate::names::{Changelist, StreamPath};

/// Everything in the client workspace.
const CLIENT: &str = "//{client}/...";
/// Connections over which a sync transfers, where the server lets it.
const THREADS: u32 = 4;

/// A command that answers in records.
fn tagged(words: &[&str]) -> Vec<String> {
    ["-ztag", "-Mj"].iter().chain(words).map(|word| (*word).to_owned()).collect()
}

fn with(mut line: Vec<String>, values: impl IntoIterator<Item = String>) -> Vec<String> {
    line.extend(values);
    line
}

/// The program's own version.
pub fn version() -> Vec<String> {
    vec!["-V".to_owned()]
}

/// What the server is; needs no ticket.
pub fn info() -> Vec<String> {
    tagged(&["info", "-s"])
}

/// Whether the ticket is one, and for how long.
pub fn login_status() -> Vec<String> {
    tagged(&["login", "-s"])
}

/// The newest changelist of the server: the cheapest question that only a user who was let in may ask.
pub fn newest() -> Vec<String> {
    tagged(&["changes", "-m1", "-s", "submitted"])
}

/// Every depot.
pub fn depots() -> Vec<String> {
    tagged(&["depots"])
}

/// Streams below a path, or the one.
pub fn streams(path: &str, most: u32) -> Vec<String> {
    with(tagged(&["streams"]), [format!("-m{most}"), path.to_owned()])
}

/// A stream with the view of its clients.
pub fn stream(stream: &StreamPath) -> Vec<String> {
    tagged(&["stream", "-o", "-v", stream.as_str()])
}

/// Which changelists of these patterns to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Up to the newest.
    All,
    /// Up to this one.
    Until(Changelist),
    /// This one.
    Only(Changelist),
}

/// The newest changelist that touches one of the patterns.
pub fn changes(patterns: &[String], span: Span) -> Vec<String> {
    let revision = match span {
        Span::All => String::new(),
        Span::Until(number) => format!("@<={number}"),
        Span::Only(number) => format!("@{number},@{number}"),
    };
    with(tagged(&["changes", "-l", "-m1", "-s", "submitted"]), patterns.iter().map(|pattern| format!("{pattern}{revision}")))
}

/// What a changelist is, wherever its files are; one of its files is named.
pub fn describe(number: Changelist) -> Vec<String> {
    with(tagged(&["describe", "-s", "-m1"]), [number.to_string()])
}

/// The same for servers that cannot count.
pub fn describe_all(number: Changelist) -> Vec<String> {
    with(tagged(&["describe", "-s"]), [number.to_string()])
}

/// Files that are there at a changelist.
pub fn files(patterns: &[String], at: Changelist, most: u32) -> Vec<String> {
    with(tagged(&["files", "-e"]), [format!("-m{most}")].into_iter().chain(patterns.iter().map(|pattern| format!("{pattern}@{at}"))))
}

/// What is in a file: its bytes and nothing else.
pub fn print(depot_file: &str, at: Changelist) -> Vec<String> {
    vec!["print".to_owned(), "-q".to_owned(), format!("{depot_file}@{at}")]
}

/// The client workspace as the server has it.
pub fn client() -> Vec<String> {
    tagged(&["client", "-o"])
}

/// Makes the client workspace, or changes it; reads [`client_form`]. Plain: with `-Mj` p4 takes every form for an empty one.
pub fn save_client() -> Vec<String> {
    ["client", "-i"].map(str::to_owned).to_vec()
}

/// Removes the client workspace from the server; what lies in it stays.
pub fn remove_client() -> Vec<String> {
    tagged(&["client", "-d", "{client}"])
}

/// The form of the client workspace: bound to the stream; files that a build made writable are replaced all the same; no
/// host, because a machine may be renamed.
pub fn client_form(stream: &StreamPath) -> String {
    let fields = [
        ("Client", "{client}"),
        ("Root", "{root}"),
        ("Description", "Made by Cookhouse for the builds of one build setting."),
        ("Options", "noallwrite clobber nocompress unlocked nomodtime rmdir"),
        ("LineEnd", "local"),
        ("Stream", stream.as_str()),
    ];
    fields.iter().map(|(field, value)| format!("{field}:\t{value}\n")).collect()
}

/// Brings the client workspace to a changelist. `anew`: whatever the server thinks that it has.
pub fn sync(at: Changelist, anew: bool, parallel: bool) -> Vec<String> {
    // Five minutes for one packet, and three more attempts: a build machine must get over a short outage.
    let mut line: Vec<String> = ["-ztag", "-Mj", "-vnet.maxwait=300", "-r3", "sync"].map(str::to_owned).to_vec();
    if anew {
        line.push("-f".to_owned());
    }
    if parallel {
        line.push(format!("--parallel=threads={THREADS}"));
    }
    with(line, [format!("{CLIENT}@{at}")])
}

/// Brings back what a build changed or deleted. `quick`: files whose times are those of the last sync are taken for unchanged.
pub fn clean(quick: bool) -> Vec<String> {
    let line = tagged(&["clean", "-e", "-d"]);
    let line = if quick { with(line, ["-m".to_owned()]) } else { line };
    with(line, [CLIENT.to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changelist_is_named_exactly() {
        let line = sync(Changelist(12), true, true);
        assert_eq!(line[4..], ["sync", "-f", "--parallel=threads=4", "//{client}/...@12"]);
        assert_eq!(sync(Changelist(12), false, false)[4..], ["sync", "//{client}/...@12"]);
        let patterns = ["//Games/main/...".to_owned(), "//Lib/...".to_owned()];
        assert_eq!(changes(&patterns, Span::Only(Changelist(12)))[7..], ["//Games/main/...@12,@12", "//Lib/...@12,@12"]);
        assert_eq!(changes(&patterns[..1], Span::Until(Changelist(12)))[7..], ["//Games/main/...@<=12"]);
        assert_eq!(changes(&patterns[..1], Span::All)[7..], ["//Games/main/..."]);
    }

    #[test]
    fn the_form_leaves_name_and_root_to_the_host() {
        let form = client_form(&StreamPath::parse("//Games/main").unwrap());
        assert!(form.starts_with("Client:\t{client}\nRoot:\t{root}\n") && form.ends_with("Stream:\t//Games/main\n"), "{form}");
    }
}
