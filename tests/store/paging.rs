//! Pages against a model: every combination of conditions, while rows come and go between pages.

use std::cell::Cell;

use cookhouse::clock::Clock;
use cookhouse::model::{Build, Id, Organization, Status};
use cookhouse::store::build_list::{self, BuildFilter};
use cookhouse::store::read::{Range, Rows, Visitor};
use cookhouse::store::{Order, Read, Snapshot, Store, StoreError};
use proptest::prelude::*;

use super::{build, open};

fn all_pages(store: &Store, organization: Id<Organization>, filter: &BuildFilter, limit: usize) -> Vec<Id<Build>> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = store.read(|snapshot| build_list::page(snapshot, organization, filter, after, limit)).expect("read");
        assert!(page.items.len() <= limit);
        ids.extend(page.items.iter().map(|build| build.id));
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pages_are_the_filtered_list(
        rows in prop::collection::vec((0usize..3, 0usize..3, 0usize..2, 0usize..2, 0usize..2, 0u128..3), 0..60),
        limit in 1usize..7,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let (clock, store) = (Clock::default(), open(directory.path()));
        let organizations = [clock.new_id(), clock.new_id()];
        let (platforms, branches, kinds) = (["Win64", "Linux", "Mac"], ["main", "dev", "main2"], ["Shipping", "Test"]);
        let builds: Vec<Build> = rows
            .iter()
            .map(|(platform, branch, kind, status, organization, setting)| Build {
                // Two settings of one project, and one of another.
                project_id: Id::from_parts(1, setting / 2),
                build_setting_id: Id::from_parts(2, *setting),
                build_type: kinds[*kind].into(),
                status: [Status::Pending, Status::Failed][*status],
                ..build(&clock, organizations[*organization], platforms[*platform], branches[*branch])
            })
            .collect();
        let stored = builds.clone();
        store.write_blocking(move |change| stored.iter().try_for_each(|build| change.put(build))).expect("written");
        // Each bit asks for one filter or leaves it out: all combinations.
        for asked in 0u8..64 {
            let ask = |bit: u8| asked & (1 << bit) != 0;
            let filter = BuildFilter {
                project_id: ask(0).then(|| Id::from_parts(1, 0)),
                build_setting_id: ask(1).then(|| Id::from_parts(2, 1)),
                status: ask(2).then_some(Status::Pending),
                platform: ask(3).then(|| "Win64".into()),
                build_type: ask(4).then(|| "Test".into()),
                branch: ask(5).then(|| "main".into()),
            };
            let wanted = |build: &&Build| {
                build.organization_id == organizations[0]
                    && (!ask(0) || build.project_id == Id::from_parts(1, 0))
                    && (!ask(1) || build.build_setting_id == Id::from_parts(2, 1))
                    && (!ask(2) || build.status == Status::Pending)
                    && (!ask(3) || build.platform == "Win64")
                    && (!ask(4) || build.build_type == "Test")
                    && (!ask(5) || build.branch == "main")
            };
            let expected: Vec<_> = builds.iter().filter(wanted).map(|build| build.id).rev().collect();
            prop_assert_eq!(&all_pages(&store, organizations[0], &filter, limit), &expected, "{:?}", filter);
        }
        let elsewhere = BuildFilter {
            project_id: Some(Id::from_parts(1, 1)),
            build_setting_id: Some(Id::from_parts(2, 1)),
            ..BuildFilter::default()
        };
        prop_assert_eq!(all_pages(&store, organizations[0], &elsewhere, limit), Vec::new(), "a setting of another project");
        prop_assert_eq!(store.check().expect("checked"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn rows_that_come_and_go_between_pages_lose_and_repeat_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (clock, store) = (Clock::default(), open(directory.path()));
    let organization = clock.new_id();
    let first: Vec<Build> = (0..10).map(|_| build(&clock, organization, "Win64", "main")).collect();
    let ids: Vec<_> = first.iter().map(|build| build.id).collect();
    store.write(move |change| first.iter().try_for_each(|build| change.put(build))).await.expect("written");
    let page = |after| store.read(|snapshot| snapshot.page::<Build>(organization, None, after, Order::NewestFirst, 4)).expect("read");
    let one = page(None);
    let newer = build(&clock, organization, "Win64", "main");
    let gone = ids[6];
    store
        .write(move |change| {
            change.put(&newer)?;
            change.remove::<Build>(organization, gone).map(drop)
        })
        .await
        .expect("written");
    let two = page(one.next);
    let seen: Vec<_> = two.items.iter().map(|build| build.id).collect();
    assert_eq!(seen, [ids[5], ids[4], ids[3], ids[2]]);
}

#[tokio::test]
async fn rare_matches_among_many_near_misses_are_all_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let (clock, store) = (Clock::default(), open(directory.path()));
    let organization = clock.new_id();
    // Every build misses one of the two conditions, in turn, but a few.
    let builds: Vec<Build> = (0..2400)
        .map(|number| {
            let is_match = matches!(number, 3 | 4 | 1200 | 2380);
            let (branch, status) = if number % 2 == 0 { ("main", Status::Complete) } else { ("dev", Status::Failed) };
            let branch = if is_match { "main" } else { branch };
            let mut build = build(&clock, organization, "Win64", branch);
            build.build_setting_id = Id::from_parts(7, number % 50);
            build.status = if is_match { Status::Failed } else { status };
            build
        })
        .collect();
    let expected: Vec<_> = [2380, 1200, 4, 3].map(|number: usize| builds[number].id).to_vec();
    store.write(move |change| builds.iter().try_for_each(|build| change.put(build))).await.expect("written");
    let filter = BuildFilter { status: Some(Status::Failed), branch: Some("main".into()), ..BuildFilter::default() };
    for limit in [1, 2, 3, 4, 5, 25] {
        assert_eq!(all_pages(&store, organization, &filter, limit), expected, "{limit}");
    }
}

/// Counts what a question looks at.
struct Counted<'a> {
    rows: &'a Snapshot,
    looked_at: Cell<usize>,
}

impl Counted<'_> {
    fn look(&self) {
        self.looked_at.set(self.looked_at.get() + 1);
    }
}

impl Rows for Counted<'_> {
    fn row(&self, name: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.look();
        self.rows.row(name, key)
    }

    fn walk(&self, name: &'static str, range: &Range, order: Order, visit: &mut Visitor<'_>) -> Result<(), StoreError> {
        self.look();
        self.rows.walk(name, range, order, &mut |key, value| {
            self.look();
            visit(key, value)
        })
    }
}

#[tokio::test]
async fn every_combination_of_filters_costs_a_page_and_not_the_table() {
    const WORDS: usize = 3 * 2 * 3;
    // Finding the lists, the beginning of each, and for each build of the page the build and the next one of its list.
    const MOST: usize = 5 * WORDS + 2 * WORDS + 3 * 25;
    let directory = tempfile::tempdir().expect("a directory");
    let (clock, store) = (Clock::default(), open(directory.path()));
    let organization = clock.new_id();
    let mut builds: Vec<Build> = Vec::new();
    for size in [400, 4000] {
        let more: Vec<Build> = (builds.len()..size)
            .map(|number| {
                let chance = number.wrapping_mul(2_654_435_761) >> 7;
                // Every other branch has one build only.
                let branch = if number % 2 == 0 { "main".to_owned() } else { format!("feature/{number}") };
                let mut build = build(&clock, organization, ["Win64", "Linux", "Mac"][chance % 3], &branch);
                build.build_setting_id = Id::from_parts(2, (chance % 7) as u128);
                build.project_id = Id::from_parts(1, (chance % 7 / 3) as u128);
                build.build_type = ["Shipping", "Test"][chance / 7 % 2].into();
                // One status is rare.
                build.status = if chance % 401 == 0 { Status::Failed } else { [Status::Complete, Status::Superseded][chance / 3 % 2] };
                build
            })
            .collect();
        builds.extend(more.iter().cloned());
        store.write(move |change| more.iter().try_for_each(|build| change.put(build))).await.expect("written");
        for asked in 0u8..64 {
            for turn in 0..20 {
                let ask = |bit: u8| asked & (1 << bit) != 0;
                // What one build is, and what no build may be as a whole.
                let (like, other) = (&builds[turn * (size / 20) + turn], &builds[size - 1 - turn * 13]);
                let filter = BuildFilter {
                    project_id: ask(0).then_some(like.project_id),
                    build_setting_id: ask(1).then_some(like.build_setting_id),
                    status: ask(2).then_some(if turn % 3 == 0 { Status::Failed } else { like.status }),
                    platform: ask(3).then(|| if turn % 2 == 0 { &other.platform } else { &like.platform }.clone()),
                    build_type: ask(4).then(|| like.build_type.clone()),
                    branch: ask(5).then(|| if turn % 5 == 0 { &other.branch } else { &like.branch }.clone()),
                };
                let after = (turn % 4 == 1).then_some(other.id);
                let looked_at = store.read(|snapshot| {
                    let counted = Counted { rows: snapshot, looked_at: Cell::new(0) };
                    build_list::page(&counted, organization, &filter, after, 25)?;
                    Ok::<_, StoreError>(counted.looked_at.get())
                });
                let looked_at = looked_at.expect("read");
                assert!(looked_at <= MOST, "{looked_at} rows were looked at among {size} builds for {filter:?}");
            }
        }
    }
}
