//! The REST endpoints: where a request leads. `rest_shapes` knows what the answers look like.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderValue, LINK, LOCATION};
use hyper::{Method, Request, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::Shared;
use super::answer::{Answer, bytes, document, internal, message};
use super::repositories::{self, Entry};
use super::rest_shapes::{self, Flavor};

/// The most of a file that the contents endpoint wraps.
const WRAPPED_LIMIT: u64 = 1 << 20;

/// The tree that was listed last with all that is in it: a large one is asked for page by page.
#[derive(Debug, Default)]
pub(super) struct Listed(tokio::sync::Mutex<Option<(String, Arc<[Entry]>)>>);

impl Listed {
    /// Its entries never change: the hash names them.
    async fn tree(&self, directory: &Path, hash: &str) -> io::Result<Arc<[Entry]>> {
        let mut last = self.0.lock().await;
        if let Some((_, entries)) = last.as_ref().filter(|(listed, _)| listed == hash) {
            return Ok(entries.clone());
        }
        let entries: Arc<[Entry]> = repositories::tree(directory, hash, true, None).await?.into();
        *last = Some((hash.to_owned(), entries.clone()));
        Ok(entries)
    }
}

/// A request's words.
struct Asked<'a> {
    server: &'a Shared,
    flavor: Flavor,
    base: String,
    path: String,
    /// Path and query as they came.
    raw: &'a str,
    query: Vec<(String, String)>,
    wants_raw: bool,
}

pub(super) async fn answer(server: &Shared, request: &Request<Incoming>) -> Answer {
    if request.method() != Method::GET {
        return message(StatusCode::METHOD_NOT_ALLOWED, "This server is read-only");
    }
    let path = request.uri().path();
    let (flavor, rest) = match (path.strip_prefix("/api/v3"), path.strip_prefix("/api/v1")) {
        (Some(rest), _) => (Flavor::V3, rest),
        (_, Some(rest)) => (Flavor::V1, rest),
        _ => return not_found(),
    };
    let Ok(decoded) = percent_decode_str(rest).decode_utf8() else { return not_found() };
    let asked = Asked {
        server,
        flavor,
        base: format!("{}{}", server.base, &path[..path.len() - rest.len()]),
        path: decoded.into_owned(),
        raw: request.uri().path_and_query().map_or("", |raw| raw.as_str()),
        query: request.uri().query().and_then(|query| serde_urlencoded::from_str(query).ok()).unwrap_or_default(),
        wants_raw: flavor == Flavor::V3
            && request.headers().get(ACCEPT).is_some_and(|value| value.to_str().is_ok_and(|kind| kind.contains("raw"))),
    };
    let mut answer = asked.answer().await.unwrap_or_else(|error| internal(&error));
    if flavor == Flavor::V3 {
        answer.headers_mut().insert("x-github-media-type", HeaderValue::from_static("github.v3; format=json"));
        answer.headers_mut().insert("x-ratelimit-remaining", HeaderValue::from_static("4999"));
    }
    answer
}

/// One page of a list that is made at once.
pub(super) fn page_of<T>(server: &Shared, uri: &Uri, all: &[T], shape: impl Fn(&T) -> Value) -> Answer {
    let asked = Asked {
        server,
        flavor: Flavor::V3,
        base: server.base.clone(),
        path: uri.path().to_owned(),
        raw: "",
        query: uri.query().and_then(|query| serde_urlencoded::from_str(query).ok()).unwrap_or_default(),
        wants_raw: false,
    };
    asked.list(asked.page(all).map(shape).collect(), all.len())
}

fn not_found() -> Answer {
    message(StatusCode::NOT_FOUND, "Not Found")
}

impl Asked<'_> {
    async fn answer(&self) -> io::Result<Answer> {
        let parts: Vec<&str> = self.path.trim_start_matches('/').split('/').collect();
        match parts.as_slice() {
            ["user"] => Ok(document(&rest_shapes::user(&self.server.base, &self.server.settings.account))),
            ["version"] if self.flavor == Flavor::V1 => Ok(document(&json!({ "version": "1.22.3" }))),
            ["user", "repos"] => self.repositories().await,
            ["installation", "repositories"] if self.flavor == Flavor::V3 => self.installed_repositories().await,
            ["repositories", number, rest @ ..] if self.flavor == Flavor::V3 => {
                let Some(name) = self.server.repositories.numbered(number.parse().unwrap_or(0)).await else { return Ok(not_found()) };
                let Some(directory) = self.server.repositories.directory_of(&name) else { return Ok(not_found()) };
                self.repository(&name, &directory, rest).await
            }
            ["repos", owner, name, rest @ ..] => {
                let full_name = format!("{owner}/{name}");
                let current = self.server.repositories.current(&full_name);
                if current != full_name && self.flavor == Flavor::V3 {
                    return Ok(self.moved(&current, &full_name));
                }
                match self.server.repositories.directory_of(&full_name) {
                    Some(directory) => self.repository(&full_name, &directory, rest).await,
                    None => Ok(not_found()),
                }
            }
            _ => Ok(not_found()),
        }
    }

    /// The address of the repository that is asked about.
    fn place(&self) -> String {
        let parts: Vec<&str> = self.path.trim_start_matches('/').splitn(4, '/').take(3).collect();
        format!("{}/{}", self.base, parts.join("/"))
    }

    async fn shape(&self, name: &str, directory: &Path) -> io::Result<Value> {
        let number = self.server.repositories.number(name);
        Ok(rest_shapes::repository(&self.server.base, name, number, &repositories::default_branch(directory).await?))
    }

    /// GitHub leads from an old name to the repository's number.
    fn moved(&self, current: &str, old: &str) -> Answer {
        let rest = self.raw.split_once(old).map_or("", |(_, rest)| rest);
        let address = format!("{}/repositories/{}{rest}", self.base, self.server.repositories.number(current));
        let mut answer = message(StatusCode::MOVED_PERMANENTLY, "Moved Permanently");
        if let Ok(address) = HeaderValue::from_str(&address) {
            answer.headers_mut().insert(LOCATION, address);
        }
        answer
    }

    async fn repositories(&self) -> io::Result<Answer> {
        let names = self.server.repositories.names().await?;
        let mut items = Vec::new();
        for name in self.page(&names) {
            if let Some(directory) = self.server.repositories.directory_of(name) {
                items.push(self.shape(name, &directory).await?);
            }
        }
        Ok(self.list(items, names.len()))
    }

    async fn installed_repositories(&self) -> io::Result<Answer> {
        let names = self.server.repositories.names().await?;
        let mut items = Vec::new();
        for name in self.page(&names) {
            if let Some(directory) = self.server.repositories.directory_of(name) {
                items.push(self.shape(name, &directory).await?);
            }
        }
        let links = self.list(Vec::new(), names.len()).headers().get(LINK).cloned();
        let mut answer = document(&json!({"total_count": names.len(), "repositories": items}));
        if let Some(links) = links {
            answer.headers_mut().insert(LINK, links);
        }
        Ok(answer)
    }

    async fn repository(&self, name: &str, directory: &Path, rest: &[&str]) -> io::Result<Answer> {
        match rest {
            [] => Ok(document(&self.shape(name, directory).await?)),
            ["branches"] => self.branches(directory).await,
            ["branches", branch @ ..] => self.branch(directory, &branch.join("/")).await,
            ["commits", reference @ ..] if self.flavor == Flavor::V3 => self.commit(directory, &reference.join("/")).await,
            ["git", "commits", reference] if self.flavor == Flavor::V1 => self.commit(directory, reference).await,
            ["git", "trees", hash] => self.tree(directory, hash).await,
            ["contents", path @ ..] => self.contents(directory, &path.join("/")).await,
            ["raw", path @ ..] if self.flavor == Flavor::V1 => match self.file(directory, &path.join("/")).await? {
                Some(entry) => Ok(bytes(StatusCode::OK, "application/octet-stream", repositories::blob(directory, &entry.hash).await?)),
                None => Ok(not_found()),
            },
            _ => Ok(not_found()),
        }
    }

    async fn branches(&self, directory: &Path) -> io::Result<Answer> {
        let all = repositories::branches(directory).await?;
        let mut items = Vec::new();
        for (name, hash) in self.page(&all) {
            // GitHub's list has the hashes alone.
            let described = match self.flavor {
                Flavor::V3 => None,
                Flavor::V1 => repositories::describe(directory, hash).await?,
            };
            items.push(rest_shapes::branch(self.flavor, &self.place(), name, hash, described.as_ref()));
        }
        Ok(self.list(items, all.len()))
    }

    async fn branch(&self, directory: &Path, name: &str) -> io::Result<Answer> {
        match repositories::describe(directory, &format!("refs/heads/{name}")).await? {
            Some(commit) => Ok(document(&rest_shapes::branch(self.flavor, &self.place(), name, &commit.hash, Some(&commit)))),
            None => Ok(message(StatusCode::NOT_FOUND, "Branch not found")),
        }
    }

    async fn commit(&self, directory: &Path, reference: &str) -> io::Result<Answer> {
        if repositories::branches(directory).await?.is_empty() {
            return Ok(message(StatusCode::CONFLICT, "Git Repository is empty."));
        }
        match repositories::describe(directory, reference).await? {
            Some(commit) => Ok(document(&rest_shapes::commit(&self.place(), &commit))),
            None if self.flavor == Flavor::V3 => {
                Ok(message(StatusCode::UNPROCESSABLE_ENTITY, &format!("No commit found for SHA: {reference}")))
            }
            None => Ok(not_found()),
        }
    }

    async fn tree(&self, directory: &Path, name: &str) -> io::Result<Answer> {
        if self.flavor == Flavor::V3 && repositories::branches(directory).await?.is_empty() {
            return Ok(message(StatusCode::CONFLICT, "Git Repository is empty."));
        }
        let Some(hash) = repositories::resolve(directory, name, "tree").await? else { return Ok(not_found()) };
        let is_recursive = self.query.iter().any(|(key, _)| key == "recursive");
        let entries = if is_recursive {
            self.server.listed.tree(directory, &hash).await?
        } else {
            repositories::tree(directory, &hash, false, None).await?.into()
        };
        let total = entries.len();
        if self.flavor == Flavor::V1 {
            let size = self.size(1000, 1000);
            let page = self.number("page").max(1);
            let shown: Vec<&Entry> = entries.iter().skip((page - 1) * size).take(size).collect();
            return Ok(document(&rest_shapes::tree(&self.place(), &hash, &shown, page * size < total, Some((page, total)))));
        }
        let is_truncated = is_recursive && total > self.server.settings.tree_limit;
        let shown: Vec<&Entry> = entries.iter().take(if is_truncated { self.server.settings.tree_limit } else { total }).collect();
        Ok(document(&rest_shapes::tree(&self.place(), &hash, &shown, is_truncated, None)))
    }

    async fn contents(&self, directory: &Path, path: &str) -> io::Result<Answer> {
        let Some(entry) = self.file(directory, path).await? else { return Ok(not_found()) };
        if entry.kind == "tree" {
            let inside = repositories::tree(directory, &entry.hash, false, None).await?;
            return Ok(document(&rest_shapes::directory(&self.place(), path, &inside)));
        }
        if entry.kind == "commit" {
            return Ok(document(&rest_shapes::submodule(&self.place(), &entry, path)));
        }
        let bytes_of_file = repositories::blob(directory, &entry.hash).await?;
        if entry.mode == "120000" && !self.wants_raw && self.flavor == Flavor::V3 {
            let target = String::from_utf8_lossy(&bytes_of_file);
            return Ok(document(&rest_shapes::link(&self.place(), &entry, path, &target)));
        }
        if self.wants_raw {
            return Ok(bytes(StatusCode::OK, "application/vnd.github.raw+json; charset=utf-8", bytes_of_file));
        }
        let wrapped = (bytes_of_file.len() as u64 <= WRAPPED_LIMIT).then_some(bytes_of_file.as_slice());
        Ok(document(&rest_shapes::contents(&self.place(), &entry, path, bytes_of_file.len(), wrapped)))
    }

    async fn file(&self, directory: &Path, path: &str) -> io::Result<Option<Entry>> {
        let reference = match self.query.iter().find(|(key, _)| key == "ref") {
            Some((_, reference)) => reference.clone(),
            None => "HEAD".to_owned(),
        };
        let Some(hash) = repositories::resolve(directory, &reference, "tree").await? else { return Ok(None) };
        // `ls-tree` takes the path as it is, not as a pattern; a directory with a slash behind it would list its inside.
        let entries = repositories::tree(directory, &hash, false, Some(path.trim_end_matches('/'))).await?;
        Ok(entries.into_iter().find(|entry| entry.path == path))
    }

    fn number(&self, name: &str) -> usize {
        self.query.iter().find(|(key, _)| key == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    }

    fn size(&self, default: usize, most: usize) -> usize {
        let key = match self.flavor {
            Flavor::V3 => "per_page",
            Flavor::V1 if most == 1000 => "per_page",
            Flavor::V1 => "limit",
        };
        match self.number(key) {
            0 => default,
            asked => asked.min(most),
        }
    }

    fn page_size(&self) -> usize {
        match self.flavor {
            Flavor::V3 => self.size(30, self.server.settings.largest_page),
            Flavor::V1 => self.size(30, 50),
        }
    }

    fn page<'a, T>(&self, all: &'a [T]) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let size = self.page_size();
        all.iter().skip((self.number("page").max(1) - 1) * size).take(size)
    }

    /// A list with the `Link` header of its pages.
    fn list(&self, items: Vec<Value>, total: usize) -> Answer {
        let (size, page) = (self.page_size(), self.number("page").max(1));
        let last = total.div_ceil(size).max(1);
        let key = if self.flavor == Flavor::V3 { "per_page" } else { "limit" };
        let address = |page: usize, relation: &str| format!("<{}{}?{key}={size}&page={page}>; rel=\"{relation}\"", self.base, self.path);
        let mut links = Vec::new();
        if page < last {
            links.extend([address(page + 1, "next"), address(last, "last")]);
        }
        if page > 1 {
            links.extend([address(page - 1, "prev"), address(1, "first")]);
        }
        let mut answer = document(&Value::Array(items));
        if let (false, Ok(link)) = (links.is_empty(), HeaderValue::from_str(&links.join(", "))) {
            answer.headers_mut().insert(LINK, link);
        }
        answer
    }
}
