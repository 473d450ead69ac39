//! Text that came from a guest or from a tool, made safe to keep and to show.

/// The text without control characters and terminal escape sequences, cut at a character boundary. Tabs stay,
/// line ends become spaces: one message is one line.
pub(crate) fn clean(text: &str, limit_bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(limit_bytes));
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let kept = match character {
            '\u{1b}' => {
                skip_escape(&mut characters);
                continue;
            }
            '\t' => '\t',
            '\r' | '\n' => ' ',
            // C0, DEL, C1, and the characters that turn the direction of what follows.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => continue,
            c => c,
        };
        if out.len() + kept.len_utf8() > limit_bytes {
            break;
        }
        out.push(kept);
    }
    out
}

fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.peek() {
        // CSI: parameters, then one final byte.
        Some('[') => {
            characters.next();
            for character in characters.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&character) {
                    break;
                }
            }
        }
        // OSC and friends: until BEL or ESC \.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(character) = characters.next() {
                if character == '\u{7}' {
                    break;
                }
                if character == '\u{1b}' {
                    characters.next();
                    break;
                }
            }
        }
        Some(_) => {
            characters.next();
        }
        None => {}
    }
}

/// The longest prefix of at most `limit_bytes` that ends at a character boundary.
pub(crate) fn prefix(text: &str, limit_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(limit_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_controls_are_gone_and_the_cut_keeps_characters_whole() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m\u{7}b\r\nc\td", 100), "aredb  c\td");
        assert_eq!(clean("x\u{1b}]0;title\u{7}y\u{202e}z", 100), "xyz");
        assert_eq!(clean("ééé", 3), "é");
        assert_eq!(prefix("ééé", 3), "é");
        assert_eq!(clean("\u{1b}", 3), "");
    }
}
