//! Pages against a model: every combination of conditions, while rows come and go between pages.

use cookhouse::clock::Clock;
use cookhouse::model::{Build, Id};
use cookhouse::store::key::Key;
use cookhouse::store::{Index, Order, Read, Store, tables};
use proptest::prelude::*;

use super::{build, open};

fn conditions<'a>(platform: Option<&str>, branch: Option<&str>, kind: Option<&str>) -> Vec<(&'a Index<Build>, Key)> {
    let of = |index, text: Option<&str>| text.map(|text| (index, Key::of_text(text)));
    [of(&tables::BUILDS_BY_PLATFORM, platform), of(&tables::BUILDS_BY_BRANCH, branch), of(&tables::BUILDS_BY_TYPE, kind)]
        .into_iter()
        .flatten()
        .collect()
}

fn all_pages(
    store: &Store,
    organization: Id<cookhouse::model::Organization>,
    conditions: &[(&Index<Build>, Key)],
    order: Order,
    limit: usize,
) -> Vec<Id<Build>> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = store.read(|snapshot| snapshot.page(organization, conditions, after, order, limit)).expect("read");
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
        rows in prop::collection::vec((0usize..3, 0usize..3, 0usize..2, 0usize..2), 0..60),
        limit in 1usize..7,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let (clock, store) = (Clock::default(), open(directory.path()));
        let organizations = [clock.new_id(), clock.new_id()];
        let (platforms, branches, kinds) = (["Win64", "Linux", "Mac"], ["main", "dev", "main2"], ["Shipping", "Test"]);
        let builds: Vec<Build> = rows
            .iter()
            .map(|(platform, branch, kind, organization)| Build {
                build_type: kinds[*kind].into(),
                ..build(&clock, organizations[*organization], platforms[*platform], branches[*branch])
            })
            .collect();
        let stored = builds.clone();
        store.write_blocking(move |change| stored.iter().try_for_each(|build| change.put(build))).expect("written");
        for (platform, branch, kind) in [(None, None, None), (Some("Win64"), None, None), (None, Some("main"), None), (Some("Linux"), Some("dev"), None), (Some("Win64"), Some("main"), Some("Test"))] {
            let wanted = |build: &&Build| {
                build.organization_id == organizations[0]
                    && platform.is_none_or(|platform| build.platform == platform)
                    && branch.is_none_or(|branch| build.branch == branch)
                    && kind.is_none_or(|kind| build.build_type == kind)
            };
            let mut expected: Vec<_> = builds.iter().filter(wanted).map(|build| build.id).collect();
            let conditions = conditions(platform, branch, kind);
            prop_assert_eq!(&all_pages(&store, organizations[0], &conditions, Order::OldestFirst, limit), &expected);
            expected.reverse();
            prop_assert_eq!(&all_pages(&store, organizations[0], &conditions, Order::NewestFirst, limit), &expected);
        }
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
    let page = |after| store.read(|snapshot| snapshot.page::<Build>(organization, &[], after, Order::NewestFirst, 4)).expect("read");
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
