//! What a tool prints: read as it comes, in lines of bounded length, without secrets.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::super::super::redaction::Redactor;
use super::super::super::text::clean;
use super::super::progress::Throttle;
use crate::model::log::LogStream;
use crate::seams::LogSink;

/// Longest line; a longer one becomes several.
const LONGEST_LINE: usize = 16 * 1024;

/// Where the pieces of a stream go.
pub(super) struct Pump {
    pub(super) redactor: Redactor,
    pub(super) log: Option<(Arc<dyn LogSink>, LogStream)>,
    pub(super) progress: Option<Arc<Throttle>>,
}

/// A finished line. One that ends with a lone carriage return is a progress display: not for the log.
struct Line {
    text: String,
    is_progress: bool,
}

impl Pump {
    /// Reads to the end. `raw` sees every byte, `line` every finished line; both may wait.
    pub(super) async fn run<R, L, F>(&self, mut source: R, mut raw: impl FnMut(&[u8]), mut line: L) -> std::io::Result<()>
    where
        R: AsyncRead + Unpin,
        L: FnMut(String) -> F,
        F: Future<Output = ()>,
    {
        let mut buffer = vec![0u8; 32 * 1024];
        let mut open = Vec::new();
        loop {
            let count = source.read(&mut buffer).await?;
            raw(&buffer[..count]);
            open.extend_from_slice(&buffer[..count]);
            for found in self.take_lines(&mut open, count == 0) {
                self.tell(&found);
                line(found.text).await;
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    fn take_lines(&self, open: &mut Vec<u8>, at_end: bool) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(end) = open.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            // A carriage return at the very end may be half of a line end.
            if open[end] == b'\r' && end + 1 == open.len() && !at_end {
                break;
            }
            let is_pair = open[end] == b'\r' && open.get(end + 1) == Some(&b'\n');
            let is_progress = open[end] == b'\r' && !is_pair;
            let rest = open.split_off(end + 1 + usize::from(is_pair));
            let bytes = std::mem::replace(open, rest);
            self.cut(&bytes[..end], is_progress, &mut lines);
        }
        if at_end && !open.is_empty() {
            let bytes = std::mem::take(open);
            self.cut(&bytes, false, &mut lines);
        }
        // No end in sight: give away what no secret can reach into any more.
        let margin = self.redactor.longest() * 2;
        if open.len() > LONGEST_LINE + margin {
            let text = String::from_utf8_lossy(open).into_owned();
            let cut = self.redactor.cut(&text, LONGEST_LINE);
            let cut = if cut == 0 { text.floor_char_boundary(LONGEST_LINE) } else { cut };
            self.cut(&text.as_bytes()[..cut], false, &mut lines);
            *open = text.into_bytes().split_off(cut);
        }
        lines
    }

    fn cut(&self, bytes: &[u8], is_progress: bool, lines: &mut Vec<Line>) {
        let text = self.redactor.redact(&String::from_utf8_lossy(bytes));
        let text = clean(&text, usize::MAX);
        let mut rest = text.as_str();
        loop {
            let piece = super::super::super::text::prefix(rest, LONGEST_LINE);
            lines.push(Line { text: piece.to_owned(), is_progress });
            rest = &rest[piece.len()..];
            if rest.is_empty() {
                return;
            }
        }
    }

    fn tell(&self, line: &Line) {
        if let Some(progress) = &self.progress
            && let Some((phase, done, total)) = progress_of(&line.text)
        {
            progress.report(phase, done, Some(total));
        }
        if let (Some((log, stream)), false) = (&self.log, line.is_progress) {
            log.line(*stream, &line.text);
        }
    }
}

/// `Receiving objects:  45% (450/1000), 1.2 MiB | 3 MiB/s` as git and git-lfs print it.
fn progress_of(text: &str) -> Option<(&str, u64, u64)> {
    let text = text.strip_prefix("remote: ").unwrap_or(text);
    let (phase, rest) = text.split_once(": ")?;
    let (_, counts) = rest.trim_start().split_once("% (")?;
    let (done, total) = counts.split_once(')')?.0.split_once('/')?;
    (phase.len() <= 60).then_some((phase, done.parse().ok()?, total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines_of(pieces: &[&[u8]], secret: &str) -> Vec<String> {
        let redactor = Redactor::default();
        redactor.add(secret);
        let pump = Pump { redactor, log: None, progress: None };
        let (client, mut server) = tokio::io::duplex(64 * 1024);
        let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
        let writer = tokio::spawn(async move {
            for piece in pieces {
                tokio::io::AsyncWriteExt::write_all(&mut server, &piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mut lines = Vec::new();
        pump.run(
            client,
            |_| {},
            |line| {
                lines.push(line);
                std::future::ready(())
            },
        )
        .await
        .unwrap();
        writer.await.unwrap();
        lines
    }

    #[tokio::test]
    async fn lines_are_cut_cleaned_and_masked() {
        let lines =
            lines_of(&[b"one\r", b"\ntwo \x1b[31mred\nprogress 1\rprogress 2\r", b"tok", b"en-12345 end\n\xff last"], "token-12345").await;
        assert_eq!(lines, ["one", "two red", "progress 1", "progress 2", "*** end", "\u{fffd} last"]);
    }

    #[tokio::test]
    async fn a_secret_at_the_cut_of_an_endless_line_is_masked() {
        let secret = "0123456789abcdef";
        let mut text = vec![b'x'; LONGEST_LINE - 8];
        text.extend_from_slice(secret.as_bytes());
        text.extend(vec![b'y'; 3 * LONGEST_LINE]);
        let lines = lines_of(&[&text], secret).await;
        assert!(lines.iter().all(|line| line.len() <= LONGEST_LINE));
        let all = lines.concat();
        assert!(!all.contains(&secret[..9]) && !all.contains(&secret[8..]) && all.contains("***"));
    }

    #[test]
    fn progress_displays_are_understood() {
        assert_eq!(progress_of("Receiving objects:  45% (450/1000), 1.2 MiB | 3 MiB/s"), Some(("Receiving objects", 450, 1000)));
        assert_eq!(progress_of("remote: Counting objects: 100% (9/9), done."), Some(("Counting objects", 9, 9)));
        assert_eq!(progress_of("HEAD is now at abc"), None);
    }
}
