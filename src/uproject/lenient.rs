//! JSON as the editor reads it, turned into JSON as the standard writes it.
//!
//! Only tokens are looked at: comments and trailing commas go, keys and literals become lower case, raw control
//! characters in strings are escaped. Whether what is left is JSON, `serde_json` says. Line ends stay, so that its
//! line numbers are the file's.

use std::iter::Peekable;
use std::str::Chars;

use super::{MAXIMUM_NESTING, UprojectError};

/// The strict form. At most six times as long as `text`.
pub(super) fn to_strict_json(text: &str) -> Result<String, UprojectError> {
    let mut writer = Writer { out: String::with_capacity(text.len()), open: Vec::new(), comma: false, expects_key: false, line: 1 };
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' => writer.end_line(),
            _ if character.is_whitespace() => writer.out.push(' '),
            '/' => writer.comment(&mut characters)?,
            ',' => writer.comma(),
            '{' | '[' => writer.open(character)?,
            '}' | ']' => writer.close(character),
            '"' => writer.string(&mut characters),
            ':' => {
                writer.expects_key = false;
                writer.token(':');
            }
            _ => writer.token(character.to_ascii_lowercase()),
        }
    }
    writer.write_comma();
    Ok(writer.out)
}

struct Writer {
    out: String,
    open: Vec<char>,
    /// A comma that was read and not yet written: nothing but a closing bracket makes it a trailing one.
    comma: bool,
    expects_key: bool,
    line: usize,
}

impl Writer {
    fn write_comma(&mut self) {
        if std::mem::take(&mut self.comma) {
            self.out.push(',');
        }
    }

    fn token(&mut self, character: char) {
        self.write_comma();
        self.out.push(character);
    }

    fn end_line(&mut self) {
        self.out.push('\n');
        self.line += 1;
    }

    fn comma(&mut self) {
        self.write_comma();
        // After an opening bracket there is nothing that a comma could trail.
        if self.out.trim_end().ends_with(['{', '[']) {
            self.out.push(',');
        } else {
            self.comma = true;
        }
        self.expects_key = self.open.last() == Some(&'{');
    }

    fn open(&mut self, bracket: char) -> Result<(), UprojectError> {
        if self.open.len() == MAXIMUM_NESTING {
            return Err(UprojectError::TooDeep { line: self.line });
        }
        self.token(bracket);
        self.open.push(bracket);
        self.expects_key = bracket == '{';
        Ok(())
    }

    fn close(&mut self, bracket: char) {
        self.comma = false;
        self.open.pop();
        self.expects_key = false;
        self.out.push(bracket);
    }

    fn comment(&mut self, characters: &mut Peekable<Chars<'_>>) -> Result<(), UprojectError> {
        match characters.peek() {
            Some('/') => {
                // The line end itself is the main loop's.
                while characters.next_if(|character| *character != '\n').is_some() {}
                Ok(())
            }
            Some('*') => {
                characters.next();
                let (begun, mut previous) = (self.line, ' ');
                for character in characters.by_ref() {
                    match character {
                        '/' if previous == '*' => return Ok(()),
                        '\n' => self.end_line(),
                        _ => {}
                    }
                    previous = character;
                }
                Err(UprojectError::Malformed { line: begun, reason: "a comment without an end".to_owned() })
            }
            _ => {
                self.token('/');
                Ok(())
            }
        }
    }

    /// Copies a string up to its closing quote, or to the end of the text if it has none.
    fn string(&mut self, characters: &mut Peekable<Chars<'_>>) {
        let is_key = self.expects_key;
        self.token('"');
        let mut escaped = false;
        for character in characters.by_ref() {
            match character {
                '"' if !escaped => {
                    self.out.push('"');
                    return;
                }
                // The editor takes a raw line break inside a string; the standard does not.
                _ if character < ' ' => self.out.push_str(&format!("\\u{:04x}", u32::from(character))),
                _ => self.out.push(if is_key { character.to_ascii_lowercase() } else { character }),
            }
            escaped = character == '\\' && !escaped;
        }
    }
}
