//! The commented example file, made from the table of keys.

use super::keys::KEYS;
use super::rule::Rule;

/// The whole file. Every setting is commented out and shows its default, or an example where there is none.
pub fn text() -> String {
    let mut text = String::from(
        "# Configuration of Cookhouse.\n\
         #\n\
         # Every key with its default. To change one, take away the # before it. What stays commented out follows the\n\
         # defaults of the version you run. Keys without a default are marked: they are shown with an example.\n\
         #\n\
         # Cookhouse reads the file given with --config, else cookhouse.toml in the data directory if there is one.\n\
         # Every key is also an environment variable: COOKHOUSE_ and the path in capitals, parts joined by two\n\
         # underscores, lists separated by commas: COOKHOUSE_EXECUTOR__SLOTS=2, COOKHOUSE_ENGINES__0__LABEL=5.4.\n\
         # A flag wins over the environment, the environment over this file. Relative paths begin at this file.\n\
         #\n\
         # `cookhouse check-config` tries the file without starting anything. This file is made by\n\
         # `cookhouse check-config --example`.\n",
    );
    let mut section = "";
    // Keys outside of sections have to come before the first section: TOML has no way back.
    for key in KEYS.iter().filter(|key| !key.path.contains('.')).chain(KEYS.iter().filter(|key| key.path.contains('.'))) {
        let (its_section, name) = key.section_and_name();
        text.push('\n');
        if its_section != section {
            section = its_section;
            match section.strip_suffix(".*") {
                Some(list) => text.push_str(&format!("#[[{list}]]\n")),
                None => text.push_str(&format!("[{section}]\n")),
            }
        }
        for line in key.help.lines() {
            text.push_str(&format!("# {line}\n"));
        }
        let limits = match &key.rule {
            Rule::Number { range, .. } => format!("# From {} to {}.\n", range.start(), range.end()),
            Rule::Choice { allowed, .. } => format!("# One of: {}.\n", allowed.join(", ")),
            _ => String::new(),
        };
        text.push_str(&limits);
        match key.default {
            "" => text.push_str(&format!("# No default; for example:\n#{name} = {}\n", key.example)),
            default => text.push_str(&format!("#{name} = {default}\n")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_valid_with_and_without_its_comment_signs() {
        let uncommented: String = text()
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => format!("{setting}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        assert!(toml::de::DeTable::parse(&text()).is_ok());
        let table = toml::de::DeTable::parse(&uncommented).map(|table| table.get_ref().len());
        assert!(table.is_ok_and(|sections| sections > 8), "{uncommented}");
    }
}
