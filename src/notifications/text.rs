//! Text from outside (branch names, commit messages, lines of logs) made fit to be shown: nothing in it moves a cursor,
//! turns the direction of what stands around it, or goes on for ever.

use crate::model::Timestamp;

/// What stands in the place of characters that would change how the rest is read.
const REPLACEMENT: char = '\u{fffd}';

/// What a reader sees of a character.
enum Seen {
    As(char),
    Space,
    Nothing,
}

fn seen(character: char) -> Seen {
    match character {
        '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Seen::Space,
        character if character.is_control() => Seen::Nothing,
        // Turned directions: what is read is not what is there.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Seen::As(REPLACEMENT),
        // Invisible: soft hyphen, joiners, word joiners, byte order mark, annotations, tags.
        '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' => Seen::Nothing,
        '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' => Seen::Nothing,
        // Nothing is there for them, and they are not allowed in XML.
        '\u{fffe}' | '\u{ffff}' | '\u{e000}'..='\u{f8ff}' => Seen::As(REPLACEMENT),
        character => Seen::As(character),
    }
}

/// Text as one line of at most `longest` characters: white space is one space.
pub(super) fn line(text: &str, longest: usize) -> String {
    shown(text, longest, |out, _| {
        if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
    })
}

/// A line of a log: its columns stay.
pub(super) fn log_line(text: &str, longest: usize) -> String {
    shown(text, longest, |out, space| out.push_str(if space == '\t' { "    " } else { " " }))
}

/// What a reader sees of a text, cut to `longest` characters; `put_space` says what becomes of white space.
fn shown(text: &str, longest: usize, put_space: fn(&mut String, char)) -> String {
    let mut out = String::new();
    for character in without_escapes(text) {
        match seen(character) {
            Seen::Space => put_space(&mut out, character),
            Seen::As(' ') => put_space(&mut out, ' '),
            Seen::As(character) => out.push(character),
            Seen::Nothing => {}
        }
        // Later characters would be cut off anyway.
        if out.len() > longest.saturating_mul(4).saturating_add(16) {
            break;
        }
    }
    out.truncate(out.trim_end().len());
    cut(out, longest)
}

/// The first `longest` characters; the last of them says that there were more.
pub(super) fn cut(mut text: String, longest: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(longest) {
        let last = text[..end].char_indices().next_back().map_or(0, |(at, _)| at);
        text.truncate(last);
        text.truncate(text.trim_end().len());
        text.push('\u{2026}');
    }
    text
}

/// The characters without terminal sequences (colours, titles, links).
fn without_escapes(text: &str) -> impl Iterator<Item = char> + '_ {
    let mut characters = text.chars().peekable();
    std::iter::from_fn(move || {
        loop {
            let character = characters.next()?;
            let control = match character {
                '\u{1b}' => characters.next_if(|next| matches!(next, '[' | ']' | 'P' | '_' | '^' | '(' | ')')),
                '\u{9b}' => Some('['),
                '\u{9d}' => Some(']'),
                character => return Some(character),
            };
            match control {
                Some('[') => {
                    while characters.next_if(|next| matches!(next, ' '..='?')).is_some() {}
                    characters.next_if(|next| matches!(next, '@'..='~'));
                }
                Some('(' | ')') => drop(characters.next()),
                Some(_) => {
                    // Up to BEL or ESC \; a sequence that never ends takes the rest with it.
                    while let Some(next) = characters.next() {
                        if next == '\u{7}' || (next == '\u{1b}' && characters.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                None => {}
            }
        }
    })
}

/// For HTML, in text and in quoted attributes.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
    out
}

/// `1 h 4 min`, `12 min 3 s`, `4.2 s`.
pub(super) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0..10) => format!("{}.{} s", seconds, milliseconds % 1000 / 100),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// `1.5 GB`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if count < 1000 {
        return format!("{count} bytes");
    }
    let mut thousandths = count;
    let mut unit = 0;
    while thousandths >= 1_000_000 && unit + 1 < UNITS.len() {
        thousandths /= 1000;
        unit += 1;
    }
    format!("{}.{} {}", thousandths / 1000, thousandths % 1000 / 100, UNITS[unit])
}

/// `20 Nov 2026, 14:43 UTC`.
pub(super) fn moment(time: Timestamp) -> String {
    let time = chrono::DateTime::<chrono::Utc>::from_timestamp_millis(time.0).unwrap_or_default();
    time.format("%-d %b %Y, %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_change_its_surroundings_is_gone() {
        let table = [
            ("plain", "plain"),
            ("  a \r\n\t b  ", "a b"),
            ("a\0b\u{7}c\u{8}d\u{7f}e\u{9f}f", "abcdef"),
            ("main\u{202e}txt.exe\u{202c}", "main\u{fffd}txt.exe\u{fffd}"),
            ("a\u{2066}b\u{200f}c\u{61c}d", "a\u{fffd}b\u{fffd}c\u{fffd}d"),
            ("a\u{200b}d\u{feff}m\u{ad}in\u{e0041}", "admin"),
            ("\u{1b}[31mred\u{1b}[0m \u{9b}1mbold", "red bold"),
            ("\u{1b}]8;;http://evil.example\u{7}link\u{1b}]8;;\u{1b}\\ end", "link end"),
            ("\u{1b}]0;never ends", ""),
            ("x\u{2028}y\u{2029}z\u{85}!", "x y z !"),
            ("\u{1f373} caf\u{e9} \u{65e5}\u{672c}", "\u{1f373} caf\u{e9} \u{65e5}\u{672c}"),
        ];
        for (given, wanted) in table {
            assert_eq!(line(given, 100), wanted, "{given:?}");
        }
        assert_eq!(log_line("\ta  b\u{1b}[K  ", 100), "    a  b");
    }

    #[test]
    fn long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(line("abcdef", 6), "abcdef");
        assert_eq!(line("abcdefg", 6), "abcde\u{2026}");
        assert_eq!(line(&"\u{1f373}".repeat(1_000_000), 4), "\u{1f373}\u{1f373}\u{1f373}\u{2026}");
        assert_eq!(line(&"\0".repeat(1_000_000), 4), "");
        assert_eq!(cut("ab".into(), 1), "\u{2026}");
    }

    #[test]
    fn figures_for_people() {
        for (milliseconds, words) in
            [(0, "0.0 s"), (4250, "4.2 s"), (59_999, "59 s"), (120_000, "2 min"), (723_000, "12 min 3 s"), (3_840_000, "1 h 4 min")]
        {
            assert_eq!(duration(milliseconds), words);
        }
        for (count, words) in
            [(12, "12 bytes"), (1000, "1.0 kB"), (999_999, "999.9 kB"), (1_500_000_000, "1.5 GB"), (u64::MAX, "18446744.0 TB")]
        {
            assert_eq!(bytes(count), words);
        }
        assert_eq!(moment(Timestamp(0)), "1 Jan 1970, 00:00 UTC");
    }

    #[test]
    fn html_has_no_way_out() {
        assert_eq!(html("<a href=\"x\" onclick='y'>&</a>"), "&lt;a href=&quot;x&quot; onclick=&#39;y&#39;&gt;&amp;&lt;/a&gt;");
    }
}
