//! Whatever the git host's published description allows in an answer can be read: fields that are null, fields that are missing,
//! every form that there is a choice of.
//!
//! The description is not part of this repository. `npm pack @octokit/openapi && tar xzf octokit-openapi-*.tgz`, then in `plugins`
//! `COOKHOUSE_GITHOST_DESCRIPTION=$PWD/package/generated/api.github.com.json cargo test -p githost --test published_shapes -- --ignored --nocapture`.

use std::collections::BTreeMap;
use std::process::Command;

use githost::answers::{Branch, Commit, Contents, Repository, User, parse};
use githost::app::{App, Installation, Reached, Token};
use githost::tree;
use serde_json::Value;

/// Reads an answer as the guest does.
fn read(what: &str, bytes: &[u8]) -> Result<(), String> {
    let text = |problem: guest_support::Problem| problem.to_string();
    let has_revision = |commit: &Commit| match commit.revision().map_err(text)? {
        Some(revision) if revision.id.len() == 40 => Ok(()),
        _ => Err("no revision".to_owned()),
    };
    match what {
        "user" => parse::<User>(what, bytes).map(drop).map_err(text),
        "app" => parse::<Option<App>>(what, bytes).map(drop).map_err(text),
        "installations" => {
            let all: Vec<Installation> = parse(what, bytes).map_err(text)?;
            let is_described = |one: &Installation| {
                let one = one.described();
                ["id", "account", "repositorySelection"].iter().all(|key| one[key].is_string()) && one["suspended"].is_boolean()
            };
            if all.iter().all(is_described) { Ok(()) } else { Err("an installation is not described".to_owned()) }
        }
        "token" => parse::<Token>(what, bytes).map(drop).map_err(text),
        "installed" => parse::<Reached>(what, bytes).map(drop).map_err(text),
        "repositories" => parse::<Vec<Repository>>(what, bytes).map(drop).map_err(text),
        "repository" => parse::<Repository>(what, bytes).map(drop).map_err(text),
        "branches" => {
            let all: Vec<Branch> = parse(what, bytes).map_err(text)?;
            all.iter().try_for_each(|branch| branch.commit.hash().map(drop)).map_err(text)
        }
        "branch" => has_revision(&parse::<Branch>(what, bytes).map_err(text)?.commit),
        "commit" => has_revision(&parse::<Commit>(what, bytes).map_err(text)?),
        "tree" => tree::read(bytes, |entry| {
            entry.kind();
        })
        .map(drop)
        .map_err(text),
        // A directory is a list, which the guest sees before it reads.
        "contents" if bytes.starts_with(b"[") => Ok(()),
        "contents" => match parse::<Contents>(what, bytes).map_err(text)?.kind.as_str() {
            "file" | "symlink" | "submodule" => Ok(()),
            other => Err(format!("a {other:?}")),
        },
        other => Err(format!("nothing here reads a {other}")),
    }
}

#[test]
#[ignore = "needs the published description; see the head of this file"]
fn whatever_is_published_can_be_read() {
    let description = std::env::var_os("COOKHOUSE_GITHOST_DESCRIPTION").expect("COOKHOUSE_GITHOST_DESCRIPTION names the description");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/published_shapes.py");
    let made = Command::new("python3").arg(script).arg("make").arg(description).output().expect("python3 starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (mut counts, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    for line in String::from_utf8(made.stdout).expect("text").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let what = line["what"].as_str().expect("a name").to_owned();
        if let Err(fault) = read(&what, line["answer"].to_string().as_bytes()) {
            wrong.push(format!("{what}: {fault}: {}", line["answer"].to_string().chars().take(600).collect::<String>()));
        }
        *counts.entry(what).or_default() += 1;
    }
    println!("{counts:?}, {} not read", wrong.len());
    wrong.truncate(5);
    assert!(wrong.is_empty() && counts.len() == 12, "{wrong:#?}");
}
