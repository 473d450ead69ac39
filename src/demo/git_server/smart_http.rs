//! Smart HTTP: git's own `http-backend`, spoken to as the CGI program that it is.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use hyper::{Method, Request, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::answer::{Answer, internal, message, streamed};
use super::repositories::git_command;
use super::{Shared, repositories};

/// The most of a CGI program's head that is read.
const HEAD_LIMIT: usize = 16 * 1024;

pub(super) async fn answer(server: &Shared, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let Some((repository, rest)) = split(&path) else { return message(StatusCode::NOT_FOUND, "Not Found") };
    let query = request.uri().query().unwrap_or_default().to_owned();
    // Reading only: there is nothing that a build would have to write.
    let is_reading = matches!(
        (request.method(), rest, query.as_str()),
        (&Method::GET, "info/refs", "service=git-upload-pack") | (&Method::POST, "git-upload-pack", _)
    );
    if !is_reading {
        return message(StatusCode::FORBIDDEN, "This server is read-only and speaks smart HTTP");
    }
    let current = server.repositories.current(repository);
    if current != repository {
        let mut answer = message(StatusCode::MOVED_PERMANENTLY, "Moved Permanently");
        if let Ok(address) = HeaderValue::from_str(&format!("{}/{current}.git/{rest}?{query}", server.base)) {
            answer.headers_mut().insert(LOCATION, address);
        }
        return answer;
    }
    let Some(directory) = server.repositories.directory_of(repository) else {
        return message(StatusCode::NOT_FOUND, "Repository not found.");
    };
    match run(server, request, &directory, rest, &query).await {
        Ok(answer) => answer,
        Err(error) => internal(&error),
    }
}

/// `<owner>/<name>` and what stands behind `.git/`.
fn split(path: &str) -> Option<(&str, &str)> {
    let (repository, rest) = path.strip_prefix('/')?.split_once(".git/")?;
    repositories::is_name(repository).then_some((repository, rest))
}

async fn run(server: &Shared, request: Request<Incoming>, directory: &Path, rest: &str, query: &str) -> io::Result<Answer> {
    let header = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mut command = git_command(directory);
    if !server.settings.is_old {
        command.env("GIT_PROTOCOL", header(HeaderName::from_static("git-protocol")));
    }
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", directory)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{rest}"))
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", request.method().as_str())
        .env("CONTENT_TYPE", header(CONTENT_TYPE))
        .env("CONTENT_LENGTH", header(CONTENT_LENGTH))
        .env("HTTP_CONTENT_ENCODING", header(CONTENT_ENCODING))
        .env("REMOTE_USER", &server.settings.account)
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("git http-backend has no pipes"));
    };
    let mut body = request.into_body();
    // The program may answer before it has read everything, so both directions move at once.
    let feeder = tokio::spawn(async move {
        while let Some(Ok(frame)) = body.frame().await {
            if let Some(bytes) = frame.data_ref()
                && input.write_all(bytes).await.is_err()
            {
                break;
            }
        }
    });
    let mut output = BufReader::new(output);
    let (status, headers) = head(&mut output).await?;
    let mut answer = streamed(output, (child, AbortOnDrop(feeder)), Arc::clone(&server.bytes));
    *answer.status_mut() = status;
    answer.headers_mut().extend(headers);
    Ok(answer)
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The CGI head: header lines up to an empty one, `Status` among them.
async fn head(output: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<(StatusCode, Vec<(HeaderName, HeaderValue)>)> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "git http-backend answered no CGI head");
    let (mut status, mut headers, mut length) = (StatusCode::OK, Vec::new(), 0);
    loop {
        let mut line = String::new();
        length += output.read_line(&mut line).await?;
        if line.is_empty() || length > HEAD_LIMIT {
            return Err(malformed());
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok((status, headers));
        }
        let (name, value) = line.split_once(':').ok_or_else(malformed)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            status = value.get(..3).and_then(|code| code.parse().ok()).ok_or_else(malformed)?;
        } else if let (Ok(name), Ok(value)) = (name.parse(), value.parse()) {
            headers.push((name, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{head, split};

    #[test]
    fn only_names_of_repositories_lead_to_a_directory() {
        assert_eq!(split("/studio/game.git/info/refs"), Some(("studio/game", "info/refs")));
        for path in ["/", "/studio/game", "/../x.git/info/refs", "/a/../b.git/info/refs", "/a/b/c.git/x", "//b.git/x", "/-a/b.git/x"] {
            assert_eq!(split(path), None, "{path}");
        }
    }

    #[tokio::test]
    async fn the_head_of_a_cgi_program_is_read() {
        let (status, headers) = head(&mut &b"Status: 403 Forbidden\r\nContent-Type: text/plain\r\n\r\nbody"[..]).await.unwrap();
        assert_eq!((status.as_u16(), headers.len()), (403, 1));
        assert!(head(&mut &b"no head"[..]).await.is_err());
        assert!(head(&mut &b"Content-Type: x"[..]).await.is_err());
    }
}
