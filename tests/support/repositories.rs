//! A git host as a plain model: repositories with branches and files. Stands in for the source-control plugin.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use cookhouse::builds::connections::STREAMVC_PLUGIN;
use cookhouse::seams::{
    Branch, BranchPage, CallContext, Materialised, PluginBinding, Repository, RepositoryPage, Revision, ServerDescription, SourceControl,
    SourceError, SourceProblem,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

/// The only token that the host takes.
/// The newest changelist of every stream.
pub const STREAM_HEAD: &str = "120";

pub const GOOD_TOKEN: &str = "token-of-the-git-host";

/// One repository.
#[derive(Debug, Clone, Default)]
pub struct FakeRepository {
    pub default_branch: String,
    /// Name to newest commit.
    pub branches: BTreeMap<String, String>,
    /// The same in every commit.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The host.
#[derive(Default)]
pub struct FakeHost {
    pub repositories: Mutex<BTreeMap<String, FakeRepository>>,
    /// Every call fails with this while it is set.
    pub outage: Mutex<Option<SourceProblem>>,
    /// What was asked, in order.
    pub asked: Mutex<Vec<String>>,
}

/// Text of a small project file.
pub const UPROJECT: &str = r#"{"FileVersion": 3, "EngineAssociation": "5.4",
    "Modules": [{"Name": "Demo", "Type": "Runtime", "LoadingPhase": "Default"}], "Plugins": [{"Name": "Extra", "Enabled": true}]}"#;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn error(problem: SourceProblem, reason: &str) -> SourceError {
    SourceError { problem, message: format!("the host said: {reason}"), retry_after: None, reason: Some(reason.to_owned()) }
}

impl FakeHost {
    /// Adds a repository with the branch `main` and these files.
    pub fn add(&self, full_name: &str, files: &[(&str, &str)]) {
        let repository = FakeRepository {
            default_branch: "main".into(),
            branches: BTreeMap::from([("main".to_owned(), "0123456789abcdef0123456789abcdef01234567".to_owned())]),
            files: files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect(),
        };
        lock(&self.repositories).insert(full_name.to_owned(), repository);
    }

    pub fn fail_with(&self, problem: Option<SourceProblem>) {
        *lock(&self.outage) = problem;
    }

    pub fn asked(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }

    fn enter(&self, binding: &PluginBinding, what: String) -> Result<(), SourceError> {
        lock(&self.asked).push(what);
        if let Some(problem) = *lock(&self.outage) {
            return Err(error(problem, "outage"));
        }
        let secret = if binding.plugin == STREAMVC_PLUGIN { "ticket" } else { "token" };
        match binding.secrets.get(secret).map(|secret| secret.reveal().as_str()) {
            Some(GOOD_TOKEN) => Ok(()),
            _ => Err(error(SourceProblem::Unauthenticated, "http-status-401")),
        }
    }

    fn repository(&self, name: &str) -> Result<FakeRepository, SourceError> {
        lock(&self.repositories).get(name).cloned().ok_or_else(|| error(SourceProblem::NotFound, "repository"))
    }
}

fn revision(id: &str) -> Revision {
    Revision { id: id.to_owned(), message: "Make it better".into(), author: "Ada".into() }
}

fn depth(path: &str) -> u32 {
    path.matches('/').count() as u32
}

impl SourceControl for FakeHost {
    fn check<'a>(&'a self, binding: &'a PluginBinding, _: CallContext) -> BoxFuture<'a, Result<ServerDescription, SourceError>> {
        async move {
            self.enter(binding, "check".into())?;
            let (product, version, account) = ("fake".into(), "1".into(), Some("studio".into()));
            Ok(ServerDescription { product, version, account, installations: Vec::new(), extra: Default::default() })
        }
        .boxed()
    }

    fn list_repositories<'a>(
        &'a self,
        binding: &'a PluginBinding,
        cursor: Option<String>,
        limit: u32,
        _: CallContext,
    ) -> BoxFuture<'a, Result<RepositoryPage, SourceError>> {
        async move {
            self.enter(binding, format!("repositories {limit} {cursor:?}"))?;
            let repositories = lock(&self.repositories).clone();
            let after = cursor.unwrap_or_default();
            let mut items: Vec<_> = repositories
                .into_iter()
                .filter(|(name, _)| *name > after)
                .map(|(full_name, repository)| Repository {
                    id: full_name.len().to_string(),
                    full_name,
                    is_private: true,
                    default_branch: repository.default_branch,
                })
                .collect();
            let more = items.len() > limit as usize;
            items.truncate(limit as usize);
            let next_cursor = items.last().filter(|_| more).map(|last| last.full_name.clone());
            Ok(RepositoryPage { items, next_cursor })
        }
        .boxed()
    }

    fn list_branches<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        query: Option<String>,
        _: Option<String>,
        _: u32,
        _: CallContext,
    ) -> BoxFuture<'a, Result<BranchPage, SourceError>> {
        async move {
            self.enter(binding, format!("branches {repository} {query:?}"))?;
            if binding.plugin == STREAMVC_PLUGIN {
                let name = query.unwrap_or_default();
                let head = revision(STREAM_HEAD);
                return self
                    .repository(&name)
                    .map(|_| BranchPage { items: vec![Branch { name, head, is_default: false }], next_cursor: None });
            }
            let found = self.repository(repository)?;
            let query = query.unwrap_or_default().to_lowercase();
            let branches = found.branches.iter().filter(|(name, _)| name.to_lowercase().contains(&query));
            let items =
                branches.map(|(name, head)| Branch { name: name.clone(), head: revision(head), is_default: *name == found.default_branch });
            Ok(BranchPage { items: items.collect(), next_cursor: None })
        }
        .boxed()
    }

    fn resolve_head<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        branch: &'a str,
        _: CallContext,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        async move {
            self.enter(binding, format!("head {repository} {branch}"))?;
            let found = self.repository(repository)?;
            found.branches.get(branch).map(|head| revision(head)).ok_or_else(|| error(SourceProblem::NotFound, "branch"))
        }
        .boxed()
    }

    fn describe_revision<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        id: &'a str,
        _: CallContext,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        async move {
            self.enter(binding, format!("revision {repository} {id}"))?;
            let found = self.repository(repository)?;
            found
                .branches
                .values()
                .find(|head| head.starts_with(id))
                .map(|head| revision(head))
                .ok_or_else(|| error(SourceProblem::NotFound, "revision"))
        }
        .boxed()
    }

    fn read_file<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        revision: &'a str,
        path: &'a str,
        limit: u32,
        _: CallContext,
    ) -> BoxFuture<'a, Result<Vec<u8>, SourceError>> {
        async move {
            self.enter(binding, format!("file {repository} {revision} {path}"))?;
            let found = self.repository(repository)?;
            let bytes = found.files.get(path).cloned().ok_or_else(|| error(SourceProblem::NotFound, "file"))?;
            if bytes.len() > limit as usize { Err(error(SourceProblem::TooLarge, "file")) } else { Ok(bytes) }
        }
        .boxed()
    }

    fn find_files<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        revision: &'a str,
        pattern: &'a str,
        max_depth: u32,
        limit: u32,
        _: CallContext,
    ) -> BoxFuture<'a, Result<(Vec<String>, bool), SourceError>> {
        async move {
            self.enter(binding, format!("find {repository} {revision} {pattern}"))?;
            let found = self.repository(repository)?;
            let is_match = |path: &String| {
                path.to_lowercase().ends_with(".uproject") && depth(path) <= max_depth && (pattern.starts_with("**") || path == pattern)
            };
            let mut paths: Vec<String> = found.files.into_keys().filter(is_match).collect();
            let more = paths.len() > limit as usize;
            paths.truncate(limit as usize);
            Ok((paths, more))
        }
        .boxed()
    }

    fn materialise<'a>(
        &'a self,
        binding: &'a PluginBinding,
        repository: &'a str,
        _: &'a str,
        id: &'a str,
        workspace: PathBuf,
        _: bool,
        _: CallContext,
    ) -> BoxFuture<'a, Result<Materialised, SourceError>> {
        async move {
            self.enter(binding, format!("materialise {repository} {id}"))?;
            let found = self.repository(repository)?;
            for (path, bytes) in &found.files {
                let path = workspace.join(path);
                std::fs::create_dir_all(path.parent().unwrap_or(&workspace)).expect("a folder");
                std::fs::write(path, bytes).expect("a file");
            }
            Ok(Materialised { revision: revision(id), files: found.files.len() as u64, bytes: 0, reusable: true, renamed: None })
        }
        .boxed()
    }
}
