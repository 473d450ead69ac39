//! The exports: what the host calls. `tool` runs p4, `server` asks about the server, `source` about streams and changelists,
//! `files` finds and reads files, `checkout` brings a changelist into a workspace.

mod checkout;
mod files;
mod server;
mod source;
mod tool;

pub(crate) mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "source-control-housekeeping-plugin" });
}

use bindings::cookhouse::plugin::config;
use bindings::cookhouse::plugin::types::{Error, ErrorCode};
use bindings::cookhouse::plugin::workspaces::Workspace;
use bindings::exports::cookhouse::plugin::source_control::{
    BranchPage, CheckoutOptions, Found, Guest, Materialised, PageRequest, RepositoryPage, Revision, Server,
};

use crate::names::{self, Changelist, FilePath, StreamPath};
use crate::settings::Settings;
use tool::P4;

guest_support::problem_into_error!(Error);

struct Streamvc;

/// A repository is a depot in lists, and a stream everywhere else.
impl Guest for Streamvc {
    fn check() -> Result<Server, Error> {
        server::check(&settings()?)
    }

    fn list_repositories(page: PageRequest) -> Result<RepositoryPage, Error> {
        source::list_depots(&mut p4()?, &page)
    }

    fn list_branches(repository: String, query: Option<String>, page: PageRequest) -> Result<BranchPage, Error> {
        source::list_streams(&mut p4()?, names::depot(&repository)?, query.as_deref(), &page)
    }

    /// `//depot/stream@120` is the newest changelist of the stream that is not newer than 120.
    fn resolve_head(_repository: String, branch: String) -> Result<Revision, Error> {
        let (stream, until) = match branch.split_once('@') {
            Some((stream, number)) => (stream, Some(Changelist::parse(number)?)),
            None => (branch.as_str(), None),
        };
        source::head(&mut p4()?, &StreamPath::parse(stream)?, until)
    }

    fn describe_revision(repository: String, revision: String) -> Result<Revision, Error> {
        source::describe(&mut p4()?, &StreamPath::parse(&repository)?, Changelist::parse(&revision)?)
    }

    fn read_file(repository: String, revision: String, path: String, limit: u32) -> Result<Vec<u8>, Error> {
        files::read(&mut p4()?, &StreamPath::parse(&repository)?, Changelist::parse(&revision)?, &FilePath::parse(&path)?, limit)
    }

    fn find_files(repository: String, revision: String, pattern: String, max_depth: u32, limit: u32) -> Result<Found, Error> {
        files::find(&mut p4()?, &StreamPath::parse(&repository)?, Changelist::parse(&revision)?, &pattern, max_depth, limit)
    }

    fn materialise(
        _repository: String,
        branch: String,
        revision: String,
        workspace: &Workspace,
        options: CheckoutOptions,
    ) -> Result<Materialised, Error> {
        checkout::materialise(&mut p4()?, &StreamPath::parse(&branch)?, Changelist::parse(&revision)?, workspace, &options)
    }
}

impl bindings::exports::cookhouse::plugin::housekeeping::Guest for Streamvc {
    fn forget(workspace: &Workspace) -> Result<(), Error> {
        checkout::forget(workspace, p4)
    }
}

fn settings() -> Result<Settings, Error> {
    Ok(Settings::parse(&config::document())?)
}

/// p4, once it is known how the server wants to be spoken to.
fn p4() -> Result<P4, Error> {
    let settings = settings()?;
    let fingerprint = settings.fingerprint.clone();
    server::meet(P4::new(settings.user_name, fingerprint))
}

bindings::export!(Streamvc with_types_in bindings);
