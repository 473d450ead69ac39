//! Request bodies, put together from parts that stay where they are until they are sent.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use wasmtime::component::Resource;

use super::super::super::bindings::http as contract;
use super::super::super::bindings::types::{ByteRange, ErrorCode, HashAlgorithm};
use super::super::super::manifest::SecretUse;
use super::super::artifacts::{Artifact, SharedFile, range_within};
use super::super::digest::Digest;
use super::super::secrets::Secret;
use super::super::workspaces::{Workspace, checked_path, open_regular};
use super::super::{CallState, Failure, Held, blocking, unless_cancelled};

/// Parts of one body.
pub(super) const MOST_SEGMENTS: usize = 10_000;
/// Bytes read from disk at a time; two of them are in memory per upload.
const STEP: usize = 1 << 20;

/// A part of a body.
#[derive(Clone)]
pub(super) enum Segment {
    /// Bytes in memory, counted against the call.
    Bytes(Bytes, #[expect(dead_code, reason = "counted until it is dropped")] Arc<Held>),
    /// Bytes on disk.
    File { file: SharedFile, offset: u64, length: u64 },
}

impl Segment {
    fn length(&self) -> u64 {
        match self {
            Segment::Bytes(bytes, _) => bytes.len() as u64,
            Segment::File { length, .. } => *length,
        }
    }
}

/// A body in a guest's hands. Its length is known, and it can be sent more than once.
#[derive(Default, Clone)]
pub struct Body {
    segments: Vec<Segment>,
    /// It holds secret bytes: it is not sent on to another origin, and not digested for the guest.
    pub(super) has_secret: bool,
}

impl Body {
    pub(super) fn push(&mut self, segment: Segment) -> Result<(), Failure> {
        if self.segments.len() >= MOST_SEGMENTS {
            return Err(Failure::said(ErrorCode::TooLarge, "a body has at most 10000 parts"));
        }
        if segment.length() > 0 {
            self.segments.push(segment);
        }
        Ok(())
    }

    pub(super) fn length(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.length()))
    }

    /// The bytes, in order. `sent` hears how many there were so far.
    pub(super) fn stream(&self, sent: impl Fn(u64) + Send + Sync + 'static) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
        struct Position<F> {
            segments: std::vec::IntoIter<Segment>,
            file: Option<(SharedFile, u64, u64)>,
            done: u64,
            sent: F,
        }
        let start = Position { segments: self.segments.clone().into_iter(), file: None, done: 0, sent };
        futures_util::stream::try_unfold(start, |mut at| async move {
            loop {
                if let Some((file, offset, left)) = at.file.take() {
                    let bytes = file.read(offset, usize::try_from(left).unwrap_or(STEP).min(STEP)).await?;
                    if bytes.is_empty() {
                        return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the file became shorter"));
                    }
                    let count = bytes.len() as u64;
                    if left > count {
                        at.file = Some((file, offset + count, left - count));
                    }
                    at.done += count;
                    (at.sent)(at.done);
                    return Ok(Some((Bytes::from(bytes), at)));
                }
                match at.segments.next() {
                    None => return Ok(None),
                    Some(Segment::File { file, offset, length }) => at.file = Some((file, offset, length)),
                    Some(Segment::Bytes(bytes, _)) => {
                        at.done += bytes.len() as u64;
                        (at.sent)(at.done);
                        return Ok(Some((bytes, at)));
                    }
                }
            }
        })
    }
}

impl CallState {
    /// Bytes of a guest as a part.
    pub(super) fn bytes_segment(&self, bytes: Vec<u8>) -> Result<Segment, Failure> {
        let held = self.hold(bytes.len())?;
        Ok(Segment::Bytes(bytes.into(), Arc::new(held)))
    }

    /// An artifact, or a range of it, as a part.
    pub(super) fn artifact_segment(&self, artifact: &Resource<Artifact>, range: Option<ByteRange>) -> Result<Segment, Failure> {
        let artifact = self.table.get(artifact)?;
        let (offset, length) = artifact.range(range)?;
        Ok(Segment::File { file: artifact.file.clone(), offset, length })
    }

    /// A file of a workspace, or a range of it, as a part. It is opened now: what a name leads to may change.
    pub(super) async fn file_segment(
        &mut self,
        workspace: &Resource<Workspace>,
        path: &str,
        range: Option<ByteRange>,
    ) -> Result<Segment, Failure> {
        let checked: PathBuf = checked_path(path)?;
        let directory = self.table.get(workspace)?.directory.clone();
        let opened = blocking(move || {
            let file = open_regular(&directory, &checked)?;
            let size = file.metadata()?.len();
            Ok((file, size))
        });
        let named = |error| Failure::io(&error, &format!("`{}`", super::super::super::text::prefix(path, 200)));
        let (file, size) = self.unless_cancelled(opened).await?.map_err(named)?;
        let (offset, length) = range_within(range, size)?;
        Ok(Segment::File { file: SharedFile::new(file), offset, length })
    }
}

impl contract::HostBody for CallState {
    async fn new(&mut self) -> wasmtime::Result<Resource<Body>> {
        Ok(self.table.push(Body::default())?)
    }

    async fn append_bytes(&mut self, body: Resource<Body>, bytes: Vec<u8>) -> Result<(), Failure> {
        let segment = self.bytes_segment(bytes)?;
        self.table.get_mut(&body)?.push(segment)
    }

    async fn append_artifact(
        &mut self,
        body: Resource<Body>,
        artifact: Resource<Artifact>,
        range: Option<ByteRange>,
    ) -> Result<(), Failure> {
        let segment = self.artifact_segment(&artifact, range)?;
        self.table.get_mut(&body)?.push(segment)
    }

    async fn append_file(
        &mut self,
        body: Resource<Body>,
        workspace: Resource<Workspace>,
        path: String,
        range: Option<ByteRange>,
    ) -> Result<(), Failure> {
        let segment = self.file_segment(&workspace, &path, range).await?;
        self.table.get_mut(&body)?.push(segment)
    }

    async fn append_secret(&mut self, body: Resource<Body>, secret: Resource<Secret>) -> Result<(), Failure> {
        let value = self.secret_for(&secret, SecretUse::Body)?;
        let segment = self.bytes_segment(value)?;
        let body = self.table.get_mut(&body)?;
        body.has_secret = true;
        body.push(segment)
    }

    async fn length(&mut self, body: Resource<Body>) -> wasmtime::Result<u64> {
        Ok(self.table.get(&body)?.length())
    }

    async fn digest(&mut self, body: Resource<Body>, algorithm: HashAlgorithm) -> Result<Vec<u8>, Failure> {
        use futures_util::TryStreamExt as _;
        let body = self.table.get(&body)?;
        if body.has_secret {
            return Err(Failure::said(ErrorCode::Denied, "the digest of a body with a secret would tell something about it"));
        }
        let mut stream = Box::pin(body.stream(|_| {}));
        let mut digest = Digest::new(algorithm);
        let cancel = self.call.cancel.clone();
        while let Some(bytes) = unless_cancelled(&cancel, stream.try_next()).await?.map_err(|error| Failure::io(&error, "the body"))? {
            digest.update(&bytes);
        }
        Ok(digest.finish())
    }

    async fn drop(&mut self, body: Resource<Body>) -> wasmtime::Result<()> {
        self.table.delete(body)?;
        Ok(())
    }
}
