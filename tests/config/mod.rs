//! The configuration from outside: files, environment, flags, and everything that can be wrong with them.

use std::path::PathBuf;

use cookhouse::config::keys::KEYS;
use cookhouse::config::{Config, Loaded, Place, Problems, Sources, example};

fn load(text: &str, environment: &[(&str, &str)], flags: &[(&'static str, &'static str, &str)]) -> Result<Loaded, Problems> {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("studio.toml");
    std::fs::write(&file, text).expect("a file");
    Config::load(&Sources {
        file: Some(file),
        environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        flags: flags.iter().map(|(path, flag, value)| (*path, *flag, (*value).to_owned())).collect(),
    })
}

/// Line and message of each problem.
fn wrong(text: &str) -> Vec<(usize, String)> {
    let problems = load(text, &[], &[]).expect_err("something is wrong");
    problems
        .0
        .into_iter()
        .map(|problem| match problem.place {
            Place::File { line, .. } => (line, problem.message),
            place => panic!("{place} is no line"),
        })
        .collect()
}

/// Windows has another data directory.
#[cfg(unix)]
#[test]
fn the_example_in_packaging_is_the_one_the_code_makes() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/cookhouse.example.toml");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, example::text()).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, example::text(), "UPDATE=1 cargo test the_example_in_packaging writes it anew");
}

#[test]
fn the_example_says_the_defaults() {
    let nothing = load("", &[], &[]).expect("nothing is fine").config;
    assert_eq!(load(&example::text(), &[], &[]).expect("comments only").config, nothing);
    // Uncommented, except where it shows an example for lack of a default.
    let mut no_default = false;
    let mut text = String::new();
    for line in example::text().lines() {
        match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') && !setting.is_empty() && !no_default && !setting.starts_with("[[") => {
                text.push_str(setting)
            }
            _ if line.starts_with('[') => text.push_str(line),
            _ => {}
        }
        text.push('\n');
        no_default = line.starts_with("# No default");
    }
    let loaded = load(&text, &[], &[]).expect("the example parses");
    assert_eq!(loaded.config, nothing);
    assert_eq!(loaded.given.len(), KEYS.iter().filter(|key| !key.default.is_empty()).count());
}

#[test]
fn every_key_is_read_from_the_file_the_environment_and_a_flag() {
    for key in KEYS {
        let value = if key.example.is_empty() { key.default } else { key.example };
        let (section, name) = key.section_and_name();
        let text = match section.strip_suffix(".*") {
            Some(list) => format!("[[{list}]]\n{name} = {value}\nlabel2 = 1\n"),
            None if section.is_empty() => format!("{name} = {value}\n"),
            None => format!("[{section}]\n{name} = {value}\n"),
        };
        let problems = load(&text, &[], &[]).err().map(|problems| problems.to_string()).unwrap_or_default();
        assert!(!problems.contains(&format!("{name} must")) && !problems.contains(&format!("unknown key {section}.{name};")), "{problems}");

        let plain = value.trim_matches(['"', '\'', '[', ']']).replace("\", \"", ",");
        let variable = key.variable().replace('*', "0");
        let problems = load("", &[(&variable, &plain)], &[]).err().map(|problems| problems.to_string()).unwrap_or_default();
        assert!(!problems.contains("must be") && !problems.contains("names no key"), "{variable}: {problems}");
    }
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let file = "[executor]\nslots = 2\n";
    let variable = [("COOKHOUSE_EXECUTOR__SLOTS", "3")];
    assert_eq!(load("", &[], &[]).expect("fine").config.executor.slots, 1);
    assert_eq!(load(file, &[], &[]).expect("fine").config.executor.slots, 2);
    assert_eq!(load(file, &variable, &[]).expect("fine").config.executor.slots, 3);
    let loaded = load(file, &variable, &[("executor.slots", "--slots", "4")]).expect("fine");
    assert_eq!(loaded.config.executor.slots, 4);
    assert_eq!(loaded.given["executor.slots"].place, Place::Flag("--slots".into()));
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_line() {
    let problems = wrong(
        "listen = \"8080\"\n\
         lisen = \"127.0.0.1:1\"\n\
         [executor]\n\
         slots = \"two\"\n\
         timeout_minutes = 1\n\
         shutdown_grace = 3\n\
         [disk]\n\
         floor_bytes = \"20 GBs\"\n\
         [log]\n\
         level = \"loud\"\n\
         [outbound]\n\
         ca_certificates = [1]\n\
         allow_loopback = \"yes\"\n",
    );
    let lines: Vec<usize> = problems.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [1, 2, 4, 5, 6, 8, 10, 12, 13], "{problems:#?}");
    assert_eq!(problems[1].1, "unknown key lisen; did you mean listen?");
    assert_eq!(problems[2].1, "executor.slots must be a whole number from 1 to 64, not \"two\"");
    assert_eq!(problems[4].1, "unknown key executor.shutdown_grace; `cookhouse check-config --example` shows all keys");
    assert_eq!(problems[6].1, "log.level must be one of error, warn, info, debug, trace, not \"loud\"");
}

#[test]
fn syntax_errors_do_not_hide_the_rest() {
    let problems = wrong("listen = \nslots = 3\n[log\nlevel = 1\n");
    assert!(problems.iter().any(|(line, message)| *line == 1 && message.starts_with("is not valid TOML")), "{problems:?}");
    assert!(
        problems.iter().any(|(line, message)| *line == 2 && message == "unknown key slots; did you mean executor.slots?"),
        "{problems:?}"
    );
}

#[test]
fn sections_and_lists_are_told_apart() {
    assert_eq!(wrong("executor = 3\n")[0].1, "executor is a section: write [executor] and its keys below");
    assert_eq!(wrong("[engines]\n")[0].1, "engines is a list of sections: write [[engines]] before each entry");
    assert_eq!(wrong("[[engines]]\nlabel = \"5.4\"\n")[0].1, "entry 1 of engines has no root");
    assert_eq!(wrong("[[engines]]\nlabel = \"5.4\"\nrot = \"/x\"\n")[0].1, "unknown key engines.rot; did you mean engines.root?");
    assert_eq!(
        wrong("[[engines]]\nlabel = \"5.4\"\nroot = \"/x\"\n[[engines]]\nlabel = \"5.4\"\nroot = \"/y\"\n"),
        [(5, "two engines have the label \"5.4\"".to_owned())]
    );
    assert_eq!(load("[executor]\n[[engines]]\nlabel = \"a\"\nroot = \"/x\"\n", &[], &[]).expect("fine").config.engines.len(), 1);
}

#[test]
fn lists_of_sections_come_from_the_environment_by_number() {
    let variables = [
        ("COOKHOUSE_ENGINES__0__LABEL", "5.4"),
        ("COOKHOUSE_ENGINES__0__ROOT", "/opt/UE_5.4"),
        ("COOKHOUSE_ENGINES__0__PLATFORMS", "Win64,Linux"),
    ];
    let engines = load("", &variables, &[]).expect("fine").config.engines;
    let root = std::path::absolute("/opt/UE_5.4").expect("a path");
    assert_eq!((engines[0].label.as_str(), &engines[0].root), ("5.4", &root));
    assert_eq!(engines[0].platforms, ["Win64", "Linux"]);
    let many = load("", &[("COOKHOUSE_ENGINES__99999999__LABEL", "5.4")], &[]).expect_err("too many").to_string();
    assert!(many.contains("at most 64 entries"), "{many}");
}

#[test]
fn a_misspelt_variable_is_refused_and_other_ones_are_not() {
    let problems = load("", &[("COOKHOUSE_EXECUTOR__SLOT", "2")], &[]).expect_err("no such key").to_string();
    assert_eq!(
        problems,
        "environment variable COOKHOUSE_EXECUTOR__SLOT: names no key of the configuration; did you mean COOKHOUSE_EXECUTOR__SLOTS?"
    );
    assert!(load("", &[("COOKHOUSE_SECRET_KEY", "x"), ("COOKHOUSE_PROCESS", "x"), ("PATH", "/bin")], &[]).is_ok());
}

#[test]
fn half_of_tls_is_refused() {
    assert_eq!(wrong("[tls]\nkey = \"k.pem\"\n"), [(2, "tls.certificate and tls.key belong together: give both or none".to_owned())]);
}

#[test]
fn relative_paths_begin_at_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("cookhouse.toml"), "[outbound]\nca_certificates = [\"studio.pem\"]\n").expect("a file");
    let flag = directory.path().display().to_string();
    // Found in the data directory without being named.
    let loaded = Config::load(&Sources { flags: vec![("data_dir", "--data", flag)], ..Sources::default() }).expect("fine");
    assert_eq!(loaded.config.outbound.ca_certificates, [directory.path().join("studio.pem")]);
    assert_eq!(loaded.file, Some(directory.path().join("cookhouse.toml")));
}

#[test]
fn files_that_are_no_configuration_get_a_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let say = |path: PathBuf| Config::load(&Sources { file: Some(path), ..Sources::default() }).expect_err("refused").0[0].message.clone();
    assert_eq!(say(directory.path().to_owned()), "is a directory; name the file itself");
    assert_eq!(say(directory.path().join("none.toml")), "cannot be read: no such file or directory");
    let binary = directory.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe, 0x00]).expect("a file");
    assert_eq!(say(binary), "is not UTF-8 text; save it as UTF-8");
    let large = directory.path().join("large.toml");
    std::fs::File::create(&large).and_then(|file| file.set_len(2 << 20)).expect("a file");
    assert!(say(large).starts_with("is larger than 1 MiB"));
}
