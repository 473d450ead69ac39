//! Bytes in, one gzip member out, with its length and both checksums: a reader, compressors on every core, one writer in order,
//! and a thread for each checksum, which would else be the slowest step.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use md5::Md5;
use sha2::{Digest, Sha256};

use super::ArtifactError;
use super::deflate::{self, CHUNK, Deflater};

/// No name, no time and no operating system, so that equal input gives equal output; 4 says "fastest".
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// Blocks on their way to a checksum.
const WAITING_FOR_CHECKSUM: usize = 4;

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub size_bytes: u64,
    pub md5: String,
    pub sha256: String,
}

/// Where the reader puts the bytes to compress.
pub(super) struct Chunks<'a> {
    /// Always a whole chunk long; the first `filled` bytes count.
    current: Vec<u8>,
    filled: usize,
    next_index: u64,
    empty: Receiver<Vec<u8>>,
    jobs: SyncSender<Job>,
    is_stopped: &'a dyn Fn() -> bool,
}

struct Job {
    index: u64,
    input: Vec<u8>,
    length: usize,
}

struct Compressed {
    index: u64,
    input: Vec<u8>,
    length: usize,
    output: Vec<u8>,
    crc: u32,
}

/// The writer ended; its own error says why.
fn writer_ended() -> ArtifactError {
    ArtifactError::Disk { doing: "writing the artifact", source: io::Error::other("the writing thread ended") }
}

impl Chunks<'_> {
    /// Bytes that are in memory already.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), ArtifactError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.filled));
            self.current[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            self.send_full()?;
        }
        Ok(())
    }

    /// Up to `length` bytes of a file, straight into the next chunk. Returns how many the file had.
    pub(super) fn read(&mut self, file: &mut impl Read, length: u64) -> Result<io::Result<u64>, ArtifactError> {
        let mut done = 0;
        while done < length {
            let room = (CHUNK - self.filled).min(usize::try_from(length - done).unwrap_or(CHUNK));
            match file.read(&mut self.current[self.filled..self.filled + room]) {
                Ok(0) => break,
                Ok(read) => {
                    self.filled += read;
                    done += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Ok(Err(error)),
            }
            self.send_full()?;
        }
        Ok(Ok(done))
    }

    fn send_full(&mut self) -> Result<(), ArtifactError> {
        if self.filled == CHUNK { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), ArtifactError> {
        if (self.is_stopped)() {
            return Err(ArtifactError::Cancelled);
        }
        let empty = self.empty.recv().map_err(|_| writer_ended())?;
        let input = std::mem::replace(&mut self.current, empty);
        let length = std::mem::take(&mut self.filled);
        self.jobs.send(Job { index: self.next_index, input, length }).map_err(|_| writer_ended())?;
        self.next_index += 1;
        Ok(())
    }
}

/// Compresses what `fill` gives into `output`, on `threads` compressing threads, and stops above `limit` bytes of output.
pub(super) fn compress<W: Write + Send>(
    output: W,
    threads: usize,
    limit: u64,
    is_stopped: &dyn Fn() -> bool,
    fill: impl FnOnce(&mut Chunks<'_>) -> Result<(), ArtifactError>,
) -> Result<Written, ArtifactError> {
    let threads = threads.max(1);
    // Every buffer is somewhere on its way between reader, compressors and writer: their number bounds the memory.
    let buffers = threads * 2 + 2;
    let (empty_to, empty) = channel();
    for _ in 0..buffers {
        let _ = empty_to.send(vec![0; CHUNK]);
    }
    let (jobs, job_queue) = sync_channel::<Job>(buffers);
    let (done_to, done) = channel::<Compressed>();
    let job_queue = Arc::new(Mutex::new(job_queue));
    let spare = Spare::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (job_queue, done_to, spare) = (Arc::clone(&job_queue), done_to.clone(), spare.clone());
            scope.spawn(move || compress_jobs(&job_queue, &done_to, &spare));
        }
        // Only the compressors hold these now: the last one that ends lets the reader and the writer notice.
        drop((job_queue, done_to));
        let (md5_to, md5_from) = sync_channel(WAITING_FOR_CHECKSUM);
        let (sha_to, sha_from) = sync_channel(WAITING_FOR_CHECKSUM);
        let md5 = scope.spawn({
            let spare = spare.clone();
            move || checksum::<Md5>(&md5_from, &spare)
        });
        let sha256 = scope.spawn({
            let spare = spare.clone();
            move || checksum::<Sha256>(&sha_from, &spare)
        });
        let writer = Writer { output, size: 0, limit, checksums: [md5_to, sha_to], spare: spare.clone() };
        let writer = scope.spawn(move || writer.run(&done, &empty_to));

        let mut chunks = Chunks { current: vec![0; CHUNK], filled: 0, next_index: 0, empty, jobs, is_stopped };
        let mut filled = fill(&mut chunks);
        if filled.is_ok() && chunks.filled > 0 {
            filled = chunks.send();
        }
        drop(chunks);
        let size = writer.join().unwrap_or_else(|_| Err(writer_ended()));
        let (md5, sha256) = (md5.join(), sha256.join());
        // When the disk is full, the reader only sees that nobody takes its chunks any more.
        let size_bytes = match (filled, size) {
            (Ok(()), size) => size?,
            (Err(ArtifactError::Disk { .. }), Err(error)) => return Err(error),
            (Err(error), _) => return Err(error),
        };
        match (md5, sha256) {
            (Ok(md5), Ok(sha256)) => Ok(Written { size_bytes, md5, sha256 }),
            _ => Err(writer_ended()),
        }
    })
}

fn compress_jobs(jobs: &Mutex<Receiver<Job>>, done: &Sender<Compressed>, spare: &Spare) {
    let mut deflater = Deflater::new();
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { index, input, length }) = job else { return };
        let mut output = spare.take();
        let crc = deflater.chunk(&input[..length], &mut output);
        if done.send(Compressed { index, input, length, output, crc }).is_err() {
            return;
        }
    }
}

struct Writer<W> {
    output: W,
    size: u64,
    limit: u64,
    checksums: [SyncSender<Arc<Vec<u8>>>; 2],
    spare: Spare,
}

impl<W: Write> Writer<W> {
    fn run(mut self, done: &Receiver<Compressed>, empty: &Sender<Vec<u8>>) -> Result<u64, ArtifactError> {
        let mut crc = crc32fast::Hasher::new();
        let mut length = 0u64;
        let mut early = BTreeMap::new();
        let mut next = 0;
        self.write(GZIP_HEADER.to_vec())?;
        while let Ok(compressed) = done.recv() {
            early.insert(compressed.index, compressed);
            while let Some(Compressed { input, length: length_of_chunk, output, crc: crc_of_chunk, .. }) = early.remove(&next) {
                next += 1;
                length += length_of_chunk as u64;
                crc.combine(&crc32fast::Hasher::new_with_initial_len(crc_of_chunk, length_of_chunk as u64));
                // Given back only when its turn came, so that one slow chunk does not let the others pile up behind it.
                let _ = empty.send(input);
                self.write(output)?;
            }
        }
        let mut end = deflate::END.to_vec();
        end.extend_from_slice(&crc.finalize().to_le_bytes());
        // The format keeps the length modulo 2^32.
        end.extend_from_slice(&(length as u32).to_le_bytes());
        self.write(end)?;
        self.output.flush().map_err(ArtifactError::disk("writing the artifact"))?;
        Ok(self.size)
    }

    fn write(&mut self, block: Vec<u8>) -> Result<(), ArtifactError> {
        self.size += block.len() as u64;
        if self.size > self.limit {
            return Err(ArtifactError::TooLarge { limit: self.limit });
        }
        self.output.write_all(&block).map_err(ArtifactError::disk("writing the artifact"))?;
        let block = Arc::new(block);
        for checksum in &self.checksums {
            checksum.send(Arc::clone(&block)).map_err(|_| writer_ended())?;
        }
        self.spare.give(block);
        Ok(())
    }
}

fn checksum<D: Digest>(blocks: &Receiver<Arc<Vec<u8>>>, spare: &Spare) -> String {
    let mut digest = D::new();
    while let Ok(block) = blocks.recv() {
        digest.update(&block[..]);
        spare.give(block);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Output buffers between their uses; new memory for each chunk would cost more than the checksum of it.
#[derive(Clone, Default)]
struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Whoever is the last to let go of a block gives its memory back.
    fn give(&self, block: Arc<Vec<u8>>) {
        if let Some(mut block) = Arc::into_inner(block) {
            block.clear();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn packed(input: &[u8], threads: usize) -> (Vec<u8>, Written) {
        let mut output = Vec::new();
        let written = compress(&mut output, threads, u64::MAX, &|| false, |chunks| chunks.push(input)).unwrap();
        (output, written)
    }

    #[test]
    fn one_gzip_member_with_true_checksums_whatever_the_number_of_threads() {
        let mut input: Vec<u8> =
            (0..3 * CHUNK + 12_345).map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[1]).collect();
        input[CHUNK / 2..CHUNK + 1000].fill(0);
        input[2 * CHUNK..2 * CHUNK + 200_000].fill(b'x');
        let (output, written) = packed(&input, 1);
        let mut back = Vec::new();
        flate2::bufread::GzDecoder::new(&output[..]).read_to_end(&mut back).unwrap();
        assert!(back == input);
        assert_eq!(written.size_bytes, output.len() as u64);
        assert_eq!(written.md5, Md5::digest(&output).iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(written.sha256, Sha256::digest(&output).iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        for threads in [2, 5] {
            assert!(packed(&input, threads) == (output.clone(), written.clone()));
        }
    }

    #[test]
    fn nothing_at_all_is_a_gzip_file_too() {
        let (output, _) = packed(&[], 2);
        let mut back = Vec::new();
        flate2::bufread::GzDecoder::new(&output[..]).read_to_end(&mut back).unwrap();
        assert!(back.is_empty());
    }

    /// Takes so many bytes, then says what a full disk says.
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_a_limit_and_a_request_to_stop_end_it_from_every_side() {
        let noise: Vec<u8> = (0..40 * CHUNK).map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[1]).collect();
        for room in [0, 5, 100_000, 3 * CHUNK] {
            let full = compress(Full(room), 2, u64::MAX, &|| false, |chunks| chunks.push(&noise));
            assert!(matches!(full, Err(ArtifactError::StorageFull)), "{full:?}");
        }
        let limited = compress(io::sink(), 2, 1000, &|| false, |chunks| chunks.push(&noise));
        assert!(matches!(limited, Err(ArtifactError::TooLarge { limit: 1000 })), "{limited:?}");
        let stopped = compress(io::sink(), 2, u64::MAX, &|| true, |chunks| chunks.push(&noise));
        assert!(matches!(stopped, Err(ArtifactError::Cancelled)), "{stopped:?}");
    }
}
