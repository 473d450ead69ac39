//! Logs of builds from outside: paging, ranges, crashes, long logs, full disks, secrets.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use cookhouse::builds::logs::{Limits, LogError, LogReader, LogWriter, Logs, Settings};
use cookhouse::clock::Clock;
use cookhouse::model::log::{LogLine, LogStream};
use cookhouse::model::{Build, Id};
use cookhouse::seams::LogSink;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::small_disk::SmallDisk;

fn build() -> Id<Build> {
    Id::from_parts(1_700_000_000_000, 7)
}

fn open(directory: PathBuf, limits: Limits) -> Logs {
    Logs::open(Settings { directory, limits }, Arc::new(Clock::default())).unwrap()
}

struct Shelf {
    home: TempDir,
    logs: Logs,
}

impl Shelf {
    fn new() -> Shelf {
        Shelf::with(Limits::default())
    }

    fn with(limits: Limits) -> Shelf {
        let home = tempfile::tempdir().unwrap();
        Shelf { logs: open(home.path().join("logs"), limits), home }
    }

    async fn writer(&self) -> LogWriter {
        self.logs.writer(build()).await.unwrap()
    }

    async fn reader(&self) -> LogReader {
        self.logs.reader(build()).await.unwrap()
    }

    /// Writes bytes of stdout and closes the log.
    async fn write(&self, bytes: &[u8]) {
        let writer = self.writer().await;
        writer.output(LogStream::Stdout, bytes).await;
        self.close(writer).await;
    }

    async fn close(&self, writer: LogWriter) {
        writer.end_lines();
        let mut follower = self.logs.follow(build()).unwrap();
        drop(writer);
        assert!(!follower.grown(u64::MAX - 1).await);
    }

    /// The files of the log in order.
    fn files(&self) -> Vec<PathBuf> {
        let id = build();
        let directory = self.home.path().join("logs").join(&id.as_str()[22..]).join(id.as_str());
        let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn texts(lines: &[LogLine]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

async fn whole_text(reader: &LogReader) -> String {
    let mut text = Vec::new();
    loop {
        let more = reader.text(text.len() as u64, 1 << 20).await.unwrap();
        if more.is_empty() {
            assert_eq!(text.len() as u64, reader.text_length());
            return String::from_utf8(text).unwrap();
        }
        text.extend(more);
    }
}

#[tokio::test]
async fn lines_come_back_with_number_stream_and_place() {
    let shelf = Shelf::new();
    assert_eq!(shelf.reader().await.tail(10).await.unwrap(), []);
    let writer = shelf.writer().await;
    writer.system("Build started");
    writer.output(LogStream::Stdout, b"one\ntw").await;
    writer.output(LogStream::Stderr, b"oops\r\n").await;
    writer.output(LogStream::Stdout, b"o\n\nlast").await;
    writer.end_lines();
    writer.flush().await.unwrap();
    let lines = shelf.reader().await.lines(0, 100).await.unwrap();
    let expected = [
        (1, LogStream::System, "Build started"),
        (2, LogStream::Stdout, "one"),
        (3, LogStream::Stderr, "oops"),
        (4, LogStream::Stdout, "two"),
        (5, LogStream::Stdout, ""),
        (6, LogStream::Stdout, "last"),
    ];
    assert_eq!(lines.iter().map(|line| (line.seq, line.stream, line.text.as_str())).collect::<Vec<_>>(), expected);
    assert!(lines.iter().all(|line| line.at.0 > 1_700_000_000_000));
    let reader = shelf.reader().await;
    assert_eq!(reader.line_count(), 6);
    assert_eq!(whole_text(&reader).await, "Build started\none\noops\ntwo\n\nlast\n");
    assert_eq!(texts(&reader.clone().tail(2).await.unwrap()), ["", "last"]);
    assert_eq!(texts(&reader.clone().lines(3, 2).await.unwrap()), ["two", ""]);
    assert_eq!(reader.lines(6, 2).await.unwrap(), []);
}

#[tokio::test]
async fn a_log_goes_on_where_it_ended() {
    let shelf = Shelf::new();
    shelf.write(b"first\nhalf").await;
    // Another start of the service.
    let again = open(shelf.home.path().join("logs"), Limits::default());
    let writer = again.writer(build()).await.unwrap();
    let second = again.writer(build()).await.unwrap();
    writer.system("interrupted");
    second.system("and deployed");
    second.flush().await.unwrap();
    let reader = again.reader(build()).await.unwrap();
    assert_eq!(whole_text(&reader).await, "first\nhalf\ninterrupted\nand deployed\n");
    assert_eq!(reader.lines(2, 9).await.unwrap()[0].seq, 3);
}

#[tokio::test]
async fn a_hundred_thousand_lines_are_all_there_in_pages_and_ranges() {
    let shelf = Shelf::new();
    let text: String = (1..=100_000).map(|number| format!("[{number}/100000] Compile Module.Game.{number}.cpp\n")).collect();
    let writer = shelf.writer().await;
    for chunk in text.as_bytes().chunks(65_536) {
        writer.output(LogStream::Stdout, chunk).await;
    }
    writer.flush().await.unwrap();
    let reader = shelf.reader().await;
    assert_eq!((reader.line_count(), reader.text_length()), (100_000, text.len() as u64));
    assert!(shelf.files().len() > 5);
    assert!(whole_text(&reader).await == text);
    for offset in [0, 1, 524_287, 1_000_003, text.len() - 1, text.len(), text.len() + 5] {
        let expected = &text.as_bytes()[offset.min(text.len())..(offset + 100).min(text.len())];
        assert!(reader.text(offset as u64, 100).await.unwrap().starts_with(&expected[..expected.len().min(1)]));
        assert!(expected.starts_with(&reader.text(offset as u64, 100).await.unwrap()));
    }
    let mut seen = 0;
    while seen < 100_000 {
        let page = reader.clone().lines(seen, 997).await.unwrap();
        assert!(page.iter().zip(seen + 1..).all(|(line, seq)| line.seq == seq && line.text.starts_with(&format!("[{seq}/"))));
        seen = page.last().unwrap().seq;
    }
    let tail = reader.tail(200).await.unwrap();
    assert_eq!((tail.len(), tail[0].seq, tail[199].seq), (200, 99_801, 100_000));
}

#[tokio::test]
async fn what_was_shown_is_on_disk_and_a_torn_end_is_cut_wherever_it_is_torn() {
    let shelf = Shelf::new();
    let writer = shelf.writer().await;
    for number in 1..=5 {
        writer.system(&format!("line {number}"));
        writer.flush().await.unwrap();
    }
    shelf.close(writer).await;
    let file = shelf.files().pop().unwrap();
    let bytes = fs::read(&file).unwrap();
    for length in 0..=bytes.len() {
        for damage in [&b""[..], b"\0\0\0\0\0\0\0\0\0\0\0\0", b"garbage behind the end"] {
            fs::write(&file, [&bytes[..length], damage].concat()).unwrap();
            let reader = shelf.reader().await;
            let lines = reader.clone().lines(0, 100).await.unwrap();
            let expected: Vec<String> = (1..=lines.len()).map(|number| format!("line {number}")).collect();
            assert_eq!(texts(&lines), expected);
            assert_eq!(reader.line_count(), lines.len() as u64);
            // Every frame is 39 bytes long here plus its text.
            assert_eq!(lines.len(), length / (bytes.len() / 5));
            assert_eq!(whole_text(&reader).await.lines().count(), lines.len());
        }
    }
    // And it goes on behind the cut, with the next number, also when nothing is left of the file.
    for length in [bytes.len() - 1, 0] {
        for file in shelf.files() {
            fs::remove_file(file).unwrap();
        }
        fs::write(&file, &bytes[..length]).unwrap();
        let writer = shelf.writer().await;
        writer.system("after the crash");
        shelf.close(writer).await;
        let reader = shelf.reader().await;
        let kept = length * 5 / bytes.len();
        let lines = reader.clone().lines(0, 100).await.unwrap();
        assert_eq!((lines.len(), lines[kept].seq, lines[kept].text.as_str()), (kept + 1, kept as u64 + 1, "after the crash"));
        assert!(whole_text(&reader).await.ends_with("\nafter the crash\n") || kept == 0);
    }
}

#[tokio::test]
async fn a_damaged_place_costs_its_own_lines_only() {
    let shelf = Shelf::new();
    let text: String = (1..=40_000).map(|number| format!("line number {number:06}\n")).collect();
    shelf.write(text.as_bytes()).await;
    let files = shelf.files();
    let mut bytes = fs::read(&files[0]).unwrap();
    bytes[100_000] ^= 1;
    fs::write(&files[0], bytes).unwrap();
    let reader = shelf.reader().await;
    let shown = whole_text(&reader).await;
    assert_eq!((shown.len(), reader.line_count()), (text.len(), 40_000));
    assert!(shown.ends_with("line number 040000\n") && shown.contains("\n\n\n\n"));
    assert_eq!(reader.tail(1).await.unwrap()[0].seq, 40_000);
}

#[tokio::test]
async fn a_log_that_gets_too_long_says_so_once_and_keeps_its_end() {
    let limits = Limits { log: 4 << 20, tail: 1 << 20 };
    let shelf = Shelf::with(limits);
    let writer = shelf.writer().await;
    let line = |number: u32| format!("{number:06} {}\n", "x".repeat(120));
    for number in 0..60_000 {
        writer.output(LogStream::Stdout, line(number).as_bytes()).await;
        if number % 500 == 0 {
            writer.flush().await.unwrap();
        }
    }
    writer.flush().await.unwrap();
    let during = shelf.reader().await;
    let head = whole_text(&during).await;
    assert!(head.starts_with(&line(0)) && head.lines().last().unwrap().starts_with("The log has reached its limit of 4 MiB."));
    assert_eq!(during.clone().tail(1).await.unwrap()[0].text, line(59_999).trim_end());
    let on_disk: u64 = shelf.files().iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(on_disk <= limits.log + (1 << 20), "{on_disk}");

    shelf.close(writer).await;
    let after = shelf.reader().await;
    let text = whole_text(&after).await;
    assert!(text.starts_with(&head) && text.ends_with(&line(59_999)));
    let tail = &text[head.len()..];
    assert!(tail.len() > 800_000);
    let numbers: Vec<u32> = tail.lines().map(|line| line[..6].parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
    assert_eq!(text.matches("The log has reached").count(), 1);
    let gap = after.clone().lines(head.lines().count() as u64, 1).await.unwrap();
    assert_eq!(gap[0].text, tail.lines().next().unwrap());
    // The end of the text is found from any place in it.
    assert_eq!(after.text(after.text_length() - 4, 100).await.unwrap(), b"xxx\n");

    // What a deploy says later comes after it, and moves nothing.
    let writer = shelf.writer().await;
    writer.system("deployed");
    writer.flush().await.unwrap();
    assert_eq!(whole_text(&shelf.reader().await).await, text.clone() + "deployed\n");
    shelf.close(writer).await;
    assert_eq!(whole_text(&shelf.reader().await).await, text + "deployed\n");
}

#[tokio::test]
async fn secrets_are_masked_before_anything_is_stored() {
    let shelf = Shelf::new();
    let writer = shelf.writer().await;
    writer.mask("s3cret-Value/With+more");
    writer.output(LogStream::Stdout, b"begin s3cret-Val").await;
    writer.output(LogStream::Stdout, b"ue/With+more end\n").await;
    writer.line(LogStream::Stderr, "url https://x/?token=s3cret-Value%2FWith%2Bmore&a");
    // "x-access-token:" + the secret, as git sends it.
    writer.line(LogStream::Stderr, "Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0LVZhbHVlL1dpdGgrbW9yZQ==");
    let long = "y".repeat(100_000) + "s3cret-Value/With+more" + &"z".repeat(100_000);
    writer.output(LogStream::Stdout, long.as_bytes()).await;
    writer.output(LogStream::Stdout, b"\n").await;
    // A token that a plugin got meanwhile masks what was begun before.
    writer.output(LogStream::Stdout, b"got ghs_installationtoken").await;
    writer.mask("ghs_installationtoken");
    shelf.close(writer).await;
    let text = whole_text(&shelf.reader().await).await;
    assert!(text.contains("begin *** end\n") && text.contains("token=***&a\n") && text.contains("got ***\n"), "{}", &text[..200]);
    assert!(text.replace('\n', "").contains("y***z"));
    for file in shelf.files() {
        let stored = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        for leak in ["s3cret", "With", "ghs_", "czNjcmV0", "dGg", "Z2hz"] {
            assert!(!stored.contains(leak), "{leak}");
        }
    }
}

#[tokio::test]
async fn followers_wake_for_each_line_and_when_it_ends() {
    let shelf = Shelf::new();
    assert!(shelf.logs.follow(build()).is_none());
    let writer = shelf.writer().await;
    let mut follower = shelf.logs.follow(build()).unwrap();
    for number in 1..=20u64 {
        writer.system("line");
        assert!(follower.grown(number - 1).await);
        // Whatever wakes somebody is there to be read.
        assert_eq!(shelf.reader().await.lines(number - 1, 5).await.unwrap()[0].seq, number);
    }
    drop(writer);
    assert!(!follower.grown(20).await);
}

#[tokio::test]
async fn a_flood_of_lines_that_cannot_wait_is_bounded_and_says_what_is_missing() {
    let shelf = Shelf::new();
    let writer = shelf.writer().await;
    let line = "f".repeat(16 * 1024);
    for _ in 0..4_000 {
        writer.line(LogStream::Stdout, &line);
    }
    writer.flush().await.unwrap();
    writer.system("after the flood");
    shelf.close(writer).await;
    let reader = shelf.reader().await;
    let notices: u64 = {
        let mut missing = 0;
        let mut seen = 0;
        while seen < reader.line_count() {
            let page = reader.clone().lines(seen, 1000).await.unwrap();
            seen = page.last().unwrap().seq;
            for text in page.iter().filter(|line| line.stream == LogStream::System).map(|line| &line.text) {
                missing += text.split(' ').next().unwrap().parse::<u64>().map_or(0, |count| count - 1);
            }
        }
        missing
    };
    // Every line is there or counted.
    assert_eq!(reader.line_count() + notices, 4_001);
    assert_eq!(reader.tail(1).await.unwrap()[0].text, "after the flood");
}

#[tokio::test]
async fn a_full_disk_loses_lines_says_so_and_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(4) else { return };
    let logs = open(disk.path().join("logs"), Limits::default());
    let writer = logs.writer(build()).await.unwrap();
    writer.system("before");
    writer.flush().await.unwrap();
    let filler = disk.fill();
    writer.output(LogStream::Stdout, "lost\n".repeat(3_000).as_bytes()).await;
    let full = writer.flush().await;
    assert!(matches!(full, Err(LogError::StorageFull)), "{full:?}");
    // What was stored stays readable.
    let reader = logs.reader(build()).await.unwrap();
    assert_eq!(texts(&reader.lines(0, 1).await.unwrap()), ["before"]);
    fs::remove_file(filler).unwrap();
    writer.system("after");
    let _ = writer.flush().await;
    let lines = logs.reader(build()).await.unwrap().lines(0, 4_000).await.unwrap();
    let missing: u64 = lines.iter().filter_map(|line| line.text.split_once(" lines are missing here")?.0.parse::<u64>().ok()).sum();
    assert_eq!(missing + lines.iter().filter(|line| line.text == "lost").count() as u64, 3_000);
    assert!(missing > 0 && lines.last().unwrap().text == "after");
    assert!(lines.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_range_of_the_text_is_that_of_the_whole(
        lines in prop::collection::vec("[a-zé日 ]{0,40}", 1..60),
        ranges in prop::collection::vec((any::<prop::sample::Index>(), 1usize..200), 1..20),
        restarts in prop::collection::vec(any::<bool>(), 60),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let shelf = Shelf::new();
            let mut writer = shelf.writer().await;
            for (line, restart) in lines.iter().zip(restarts) {
                writer.system(line);
                if restart && line.len() % 4 == 0 {
                    shelf.close(writer).await;
                    writer = shelf.writer().await;
                }
            }
            shelf.close(writer).await;
            let expected = lines.join("\n") + "\n";
            let reader = shelf.reader().await;
            assert_eq!(whole_text(&reader).await, expected);
            for (index, length) in ranges {
                let start = index.index(expected.len());
                let mut text = Vec::new();
                while text.len() < length {
                    let more = reader.text((start + text.len()) as u64, length - text.len()).await.unwrap();
                    if more.is_empty() {
                        break;
                    }
                    text.extend(more);
                }
                assert_eq!(text, &expected.as_bytes()[start..(start + length).min(expected.len())]);
            }
        });
    }
}

#[tokio::test]
async fn progress_is_told_seldom_and_never_stops_short_of_its_end() {
    let shelf = Shelf::new();
    let writer = shelf.writer().await;
    for done in 0..=500 {
        writer.progress("sync", done, Some(1000));
    }
    // The next phase tells what the one before came to.
    for done in 0..=100 {
        writer.progress("package", done, Some(100));
    }
    writer.progress("package", 100, Some(100));
    writer.system("Packaged");
    writer.progress("deploy", 1, None);
    writer.progress("deploy", 2, None);
    shelf.close(writer).await;
    let lines = shelf.reader().await.tail(100).await.unwrap();
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let expected = [
        "sync: 0 % (0 of 1000)",
        "sync: 50 % (500 of 1000)",
        "package: 0 % (0 of 100)",
        "package: 100 % (100 of 100)",
        "Packaged",
        "deploy: 1",
        "deploy: 2",
    ];
    assert_eq!(texts, expected);
}
