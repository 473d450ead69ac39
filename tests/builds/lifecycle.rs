//! Superseding and every other move, against a small model of decisions 8.

use std::collections::BTreeMap;

use cookhouse::builds::lifecycle::{self, Claim, Closing};
use cookhouse::clock::Clock;
use cookhouse::model::build::{Failure, FailureCode};
use cookhouse::model::build_setting::{Supersede, Trigger};
use cookhouse::model::{Artifact, Build, Id, Status, Timestamp, TriggeredBy};
use cookhouse::store::{Change, Read, StoreError};
use proptest::prelude::*;

use crate::support::studio::{self, Kind};

/// What may happen to the builds of one setting. Numbers choose among the builds there are.
#[derive(Debug, Clone)]
enum Act {
    Create { cause: Cause, branch: u8, revision: Option<u8> },
    Claim(usize),
    Complete(usize),
    Fail(usize),
    Cancel(usize),
    Interrupt(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    User,
    Token,
    Push,
    Cron,
}

/// The model: what the decisions say, in as few words as possible.
#[derive(Debug, Clone, PartialEq)]
struct Expected {
    status: Status,
    superseded_by: Option<Id<Build>>,
    cause: Cause,
    branch: u8,
    revision: Option<u64>,
    cancel_requested: bool,
}

#[derive(Debug, Clone, Copy)]
struct Rules {
    kind: Kind,
    supersede: Supersede,
    is_push_setting: bool,
}

impl Rules {
    fn takes_part(&self, build: &Expected) -> bool {
        let is_automatic = match build.cause {
            Cause::User => false,
            Cause::Token => self.is_push_setting,
            Cause::Push | Cause::Cron => true,
        };
        let is_named_commit = self.kind == Kind::Githost && build.revision.is_some() && !matches!(build.cause, Cause::Push | Cause::Cron);
        is_automatic && !is_named_commit && self.supersede != Supersede::Off
    }

    fn create(&self, builds: &mut BTreeMap<Id<Build>, Expected>, id: Id<Build>, new: Expected, is_repetition: bool) {
        let takes_part = self.takes_part(&new) && !is_repetition;
        let (branch, revision) = (new.branch, new.revision);
        builds.insert(id, new);
        if !takes_part {
            return;
        }
        let rivals: Vec<Id<Build>> = builds
            .iter()
            .filter(|(other, build)| **other != id && build.branch == branch && self.takes_part(build))
            .filter(|(_, build)| {
                build.status == Status::Pending || (build.status == Status::Running && self.supersede == Supersede::Running)
            })
            .map(|(other, _)| *other)
            .collect();
        let number =
            |builds: &BTreeMap<Id<Build>, Expected>, id: Id<Build>| if self.kind == Kind::Streamvc { builds[&id].revision } else { None };
        let mut winner = id;
        if self.kind == Kind::Streamvc && revision.is_some() {
            for rival in &rivals {
                if number(builds, *rival) > number(builds, winner) || (winner != id && number(builds, *rival) == number(builds, winner)) {
                    winner = *rival;
                }
            }
        }
        for loser in rivals.into_iter().chain([id]).filter(|loser| *loser != winner) {
            if let Some(build) = builds.get_mut(&loser) {
                build.status = Status::Superseded;
                build.superseded_by = Some(winner);
            }
        }
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let cause = prop_oneof![Just(Cause::User), Just(Cause::Token), Just(Cause::Push), Just(Cause::Cron)];
    let create = (cause, 0..2u8, prop::option::of(0..6u8)).prop_map(|(cause, branch, revision)| Act::Create { cause, branch, revision });
    let act = prop_oneof![
        6 => create,
        2 => any::<usize>().prop_map(Act::Claim),
        1 => any::<usize>().prop_map(Act::Complete),
        1 => any::<usize>().prop_map(Act::Fail),
        1 => any::<usize>().prop_map(Act::Cancel),
        1 => any::<usize>().prop_map(Act::Interrupt),
    ];
    prop::collection::vec(act, 1..40)
}

fn rules() -> impl Strategy<Value = Rules> {
    let kind = prop_oneof![Just(Kind::Githost), Just(Kind::Streamvc)];
    let supersede = prop_oneof![Just(Supersede::Off), Just(Supersede::Pending), Just(Supersede::Running)];
    (kind, supersede, any::<bool>()).prop_map(|(kind, supersede, is_push_setting)| Rules { kind, supersede, is_push_setting })
}

fn artifact() -> Artifact {
    Artifact {
        size_bytes: 1,
        checksum_md5: String::new(),
        checksum_sha256: String::new(),
        expires_at: None,
        deleted_at: None,
        deleted_reason: None,
    }
}

/// One transaction for the whole history: a flush for each act would only test the disk.
fn play(tx: &Change, clock: &Clock, rules: Rules, acts: &[Act]) -> Result<(), TestCaseError> {
    let studio = studio::records(clock, rules.kind);
    let (organization, project) = (studio.organization.clone(), studio.project.clone());
    let mut setting = studio.setting.clone();
    setting.supersede = rules.supersede;
    setting.trigger = if rules.is_push_setting { Trigger::Push } else { Trigger::Manual };
    tx.put(&organization).expect("stored");
    tx.put(&project).expect("stored");
    tx.put(&setting).expect("stored");
    let mut expected: BTreeMap<Id<Build>, Expected> = BTreeMap::new();
    let mut now = 1;
    for act in acts {
        now += 1;
        let now = Timestamp(now);
        let chosen = |number: &usize| (!expected.is_empty()).then(|| *expected.keys().nth(number % expected.len()).expect("counted"));
        let organization_id = organization.id;
        match act {
            Act::Create { cause, branch, revision } => {
                let mut build = studio::build(&setting, clock.new_id(), now);
                build.branch = format!("branch-{branch}");
                build.triggered_by = match cause {
                    Cause::User => TriggeredBy::User(clock.new_id()),
                    Cause::Token => TriggeredBy::ApiToken(clock.new_id()),
                    Cause::Push => TriggeredBy::Push("abcdef1".into()),
                    Cause::Cron => TriggeredBy::Cron,
                };
                // Changelists compare as numbers: 9 is less than 10.
                build.requested_revision = revision.map(|revision| (u64::from(revision) + 7).to_string());
                build.changelist = build.requested_revision.clone().filter(|_| rules.kind == Kind::Streamvc);
                let (id, setting) = (build.id, setting.clone());
                let new = Expected {
                    status: Status::Pending,
                    superseded_by: None,
                    cause: *cause,
                    branch: *branch,
                    revision: revision.map(u64::from),
                    cancel_requested: false,
                };
                lifecycle::create(tx, build, &setting, now).expect("created");
                rules.create(&mut expected, id, new, false);
            }
            Act::Claim(number) => {
                let Some(id) = chosen(number) else { continue };
                let may = expected[&id].status == Status::Pending && expected.values().all(|build| build.status != Status::Running);
                let claim = lifecycle::claim(tx, organization_id, id, now).expect("answered");
                prop_assert_eq!(matches!(claim, Claim::Running(_)), may);
                if may {
                    expected.get_mut(&id).expect("there").status = Status::Running;
                }
            }
            Act::Complete(number) => {
                let Some(id) = chosen(number) else { continue };
                let may = expected[&id].status == Status::Running && !expected[&id].cancel_requested;
                let completed = lifecycle::complete(tx, organization_id, id, artifact(), Vec::new(), Closing::default(), now);
                prop_assert_eq!(completed.is_ok(), may);
                if may {
                    expected.get_mut(&id).expect("there").status = Status::Complete;
                }
            }
            Act::Fail(number) => {
                let Some(id) = chosen(number) else { continue };
                if expected[&id].status == Status::Pending {
                    continue;
                }
                let failure = Failure { code: FailureCode::BuildStepFailed, message: String::new(), step: None };
                lifecycle::fail(tx, organization_id, id, failure, Closing::default(), now).expect("answered");
                if expected[&id].status == Status::Running {
                    expected.get_mut(&id).expect("there").status = Status::Failed;
                }
            }
            Act::Cancel(number) => {
                let Some(id) = chosen(number) else { continue };
                lifecycle::cancel(tx, organization_id, id, "", now).expect("answered");
                let build = expected.get_mut(&id).expect("there");
                match build.status {
                    Status::Pending => build.status = Status::Failed,
                    Status::Running => build.cancel_requested = true,
                    Status::Complete | Status::Failed | Status::Superseded => {}
                }
            }
            Act::Interrupt(number) => {
                let Some(id) = chosen(number) else { continue };
                let successor = clock.new_id();
                let made = lifecycle::interrupt(tx, organization_id, id, Some(successor), Closing::default(), now).expect("answered");
                let old = expected[&id].clone();
                let may = old.status == Status::Running && !old.cancel_requested;
                prop_assert_eq!(made.as_ref().map(|made| (made.id, made.retry_of)), may.then_some((successor, Some(id))));
                if old.status == Status::Running {
                    expected.get_mut(&id).expect("there").status = Status::Failed;
                }
                if may {
                    let new = Expected { status: Status::Pending, cancel_requested: false, ..old };
                    rules.create(&mut expected, successor, new, true);
                }
            }
        }
        compare(tx, organization.id, project.id, &expected)?;
    }
    Ok(())
}

fn compare(
    tx: &Change,
    organization: Id<cookhouse::model::Organization>,
    project: Id<cookhouse::model::Project>,
    expected: &BTreeMap<Id<Build>, Expected>,
) -> Result<(), TestCaseError> {
    for (id, expected) in expected {
        let build = tx.get::<Build>(organization, *id).expect("read").expect("no build is ever lost");
        prop_assert_eq!((build.status, build.superseded_by), (expected.status, expected.superseded_by), "{}", id);
        prop_assert_eq!(build.finished_at.is_some(), !build.status.is_unfinished());
        prop_assert_eq!(build.failure.is_some(), build.status == Status::Failed);
        prop_assert!(build.status.is_unfinished() || lifecycle::running_step(&build).is_none());
    }
    let project = tx.get::<cookhouse::model::Project>(organization, project).expect("read").expect("there");
    let newest = expected.iter().next_back().map(|(id, build)| (*id, build.status));
    prop_assert_eq!(project.last_build.map(|last| (last.id, last.status)), newest);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_of_a_setting_follows_the_decisions(rules in rules(), acts in acts()) {
        let home = tempfile::tempdir().expect("a directory");
        let store = studio::store(home.path());
        let outcome = store.write_blocking(move |tx| Ok::<_, StoreError>(play(tx, &Clock::default(), rules, &acts)));
        outcome.expect("committed")?;
        prop_assert_eq!(store.check().expect("checked"), Vec::<String>::new());
    }
}
