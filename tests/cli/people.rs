//! `admin` and `token` on a data directory whose server is stopped.

use std::path::PathBuf;

use tempfile::TempDir;

use super::{Ended, run, run_with, text};

struct Data {
    _directory: TempDir,
    data: PathBuf,
}

impl Data {
    fn new() -> Data {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        Data { _directory: directory, data }
    }

    fn admin(&self, email: &str, more: &[&str], password: &str) -> Ended {
        let mut arguments = vec!["admin", "create", "--data", text(&self.data), "--email", email, "--password-file", "-"];
        arguments.extend(more);
        run_with(&arguments, password)
    }

    fn token(&self, email: &str, scopes: &str) -> Ended {
        run(&["token", "create", "--data", text(&self.data), "--email", email, "--name", "script", "--scopes", scopes])
    }
}

#[test]
fn an_admin_a_token_and_a_new_password_without_a_server() {
    let data = Data::new();
    let made = data.admin("Ada@Studio.example", &[], "correct horse battery\n");
    assert_eq!((made.code, made.out.as_str()), (0, "Done: ada@studio.example is an admin of Studio.\n"), "{}", made.err);
    let token = data.token("ada@studio.example", "read,trigger");
    assert_eq!(token.code, 0, "{}", token.err);
    // A script takes standard output as it is.
    assert!(token.out.starts_with("ckh_") && token.out.len() == 41 && token.out.ends_with('\n'), "{:?}", token.out);
    let reset = run_with(
        &["admin", "reset-password", "--data", text(&data.data), "--email", "ada@studio.example", "--password-file", "-"],
        "another good password",
    );
    assert_eq!(reset.code, 0, "{}", reset.err);
}

#[test]
fn further_organizations_are_named_and_accounts_exist_once() {
    let data = Data::new();
    assert_eq!(data.admin("a@studio.example", &["--organization", "First"], "correct horse battery").code, 0);
    let second = data.admin("b@studio.example", &["--organization", "Second"], "correct horse battery");
    assert_eq!(second.out, "Done: b@studio.example is an admin of Second.\n", "{}", second.err);
    let unclear = data.admin("c@studio.example", &[], "correct horse battery");
    assert!(unclear.code == 1 && unclear.err.contains("--organization NAME"), "{}", unclear.err);
    let twice = data.admin("a@studio.example", &["--organization", "Third"], "correct horse battery");
    assert!(twice.code == 1 && twice.err.contains("exists already"), "{}", twice.err);
}

#[test]
fn wrong_orders_get_a_sentence_and_change_nothing() {
    let data = Data::new();
    let short = data.admin("a@studio.example", &[], "short");
    assert!(short.code == 1 && short.err.contains("password must have at least"), "{}", short.err);
    let nobody = data.token("a@studio.example", "read");
    assert!(nobody.code == 1 && nobody.err.contains("nobody has the e-mail address a@studio.example"), "{}", nobody.err);
    assert_eq!(data.admin("a@studio.example", &[], "correct horse battery").code, 0);
    let scope = data.token("a@studio.example", "reed");
    assert!(scope.code == 1 && scope.out.is_empty() && scope.err.contains("there is no scope \"reed\""), "{}", scope.err);
}

#[test]
fn a_password_on_the_command_line_is_refused_and_without_a_terminal_a_file_is_asked_for() {
    let data = Data::new();
    let flag = run(&["admin", "create", "--data", text(&data.data), "--email", "a@b.example", "--password", "correct horse battery"]);
    assert_eq!(flag.code, 2);
    let nothing = run(&["admin", "create", "--data", text(&data.data), "--email", "a@b.example"]);
    assert!(nothing.code == 2 && nothing.err.contains("--password-file"), "{}", nothing.err);
}

#[test]
fn a_directory_with_other_things_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("thesis.txt"), "x").expect("written");
    let refused = run_with(
        &["admin", "create", "--data", text(directory.path()), "--email", "a@b.example", "--password-file", "-"],
        "correct horse battery",
    );
    assert!(refused.code == 2 && refused.err.contains("it holds other things, such as \"thesis.txt\""), "{}", refused.err);
}

#[test]
fn a_misspelt_data_directory_is_told_and_not_made() {
    let data = Data::new();
    let place = text(&data.data);
    for arguments in [
        &["audit", "verify", "--data", place][..],
        &["key", "rotate", "--data", place],
        &["drain", "--data", place],
        &["token", "create", "--data", place, "--email", "a@b.example", "--name", "script", "--scopes", "read"],
    ] {
        let refused = run(arguments);
        assert!(refused.code == 2 && refused.err.contains("there is no such directory"), "{arguments:?}: {}", refused.err);
        assert!(refused.err.contains("--data") && !data.data.exists(), "{arguments:?}: {}", refused.err);
    }
}
