//! Text from the other side, made safe to show to people.

/// The beginning of what a server answered, as one line of at most `limit` characters: no control characters, no runs of
/// white space. Empty when nothing readable is in it.
pub fn excerpt(bytes: &[u8], limit: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    let mut gap = false;
    for character in String::from_utf8_lossy(bytes).chars() {
        if character.is_whitespace() || is_hidden(character) {
            gap = length > 0;
            continue;
        }
        if length + usize::from(gap) >= limit {
            line.push('…');
            break;
        }
        if gap {
            line.push(' ');
            length += 1;
            gap = false;
        }
        line.push(character);
        length += 1;
    }
    line
}

/// Control characters, and the invisible ones that turn text around or hide it.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn white_space_and_control_characters_become_one_space() {
        assert_eq!(excerpt(b"  no\r\n\tsuch\x1b[31m token\x00 ", 100), "no such [31m token");
    }

    #[test]
    fn direction_marks_and_broken_utf8_are_dropped() {
        assert_eq!(excerpt("a\u{202e}b".as_bytes(), 100), "a b");
        assert_eq!(excerpt(b"\xff\xfe", 100), "");
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_character() {
        assert_eq!(excerpt("äöü and more".as_bytes(), 3), "äöü…");
        assert_eq!(excerpt(b"abc", 3), "abc");
        assert_eq!(excerpt(b"abc   ", 3), "abc");
    }
}
