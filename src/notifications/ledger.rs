//! What is on record of messages: which are due, that a try begins, what came of it. Every change stands in one transaction
//! with the `notificationStatus` of the build.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::outcome::{Again, Plan, Trouble};
use crate::model::notification::{Channel, NotificationErrorCode, NotificationState, NotificationStatus};
use crate::model::{Build, Id, Notification, Organization, Timestamp};
use crate::store::key::Key;
use crate::store::tables::{NOTIFICATIONS_BY_BUILD, NOTIFICATIONS_DUE, NOTIFICATIONS_HELD, NOTIFICATIONS_OVER};
use crate::store::{Change, Order, Read, StoreError};

/// One organization's way out: messages on it are sent one after the other, and wait for no other's.
pub(super) type Lane = (Id<Organization>, Channel);

/// Messages by the lane that they wait for.
pub(super) type Waiting = BTreeMap<Lane, Vec<Notification>>;

/// Messages that one visit to a lane sends.
const AT_ONCE: usize = 20;
/// Messages that one look takes in.
const LOOKED_AT: usize = 2000;
/// Builds that one digest tells of.
const TOGETHER: usize = 200;
/// Records that one transaction forgets.
const FORGOTTEN_AT_ONCE: usize = 200;

/// A message of one build, or of several that wait to be told together.
#[derive(Debug, Clone)]
pub(super) struct Parcel {
    /// At least one; all to the same destination.
    pub(super) notifications: Vec<Notification>,
}

impl Parcel {
    pub(super) fn first(&self) -> Option<&Notification> {
        self.notifications.first()
    }
}

/// What is due, by lane, without the lanes that are being worked on. The other answer: when something will be due.
pub(super) fn due(rows: &impl Read, now: Timestamp, busy: &HashSet<Lane>) -> Result<(Waiting, Option<Timestamp>), StoreError> {
    let (mut lanes, mut next, mut looked_at) = (Waiting::new(), None, 0);
    // A digest takes all of its messages along: one of them stands for them.
    let mut held = BTreeSet::new();
    rows.for_each_on_host(&NOTIFICATIONS_DUE, &Key::all(), |one: Notification| {
        if one.due_at > now {
            next = Some(one.due_at);
            return Ok(false);
        }
        looked_at += 1;
        let lane = (one.organization_id, one.destination.channel());
        if !busy.contains(&lane) && (!one.is_held || held.insert((one.organization_id, one.destination.key()))) {
            let waiting = lanes.entry(lane).or_default();
            if waiting.len() < AT_ONCE {
                waiting.push(one);
            }
        }
        Ok(looked_at < LOOKED_AT)
    })?;
    Ok((lanes, next))
}

/// Notes that a try begins, before it does: a message at which the service ends again and again is given up in the end.
/// `None`: nothing is left to be sent.
pub(super) fn begin(tx: &Change, notification: &Notification, plan: &Plan, now: Timestamp) -> Result<Option<Parcel>, StoreError> {
    let organization = notification.organization_id;
    let Some(found) = tx.get::<Notification>(organization, notification.id)? else { return Ok(None) };
    if found.state != NotificationState::Pending || found.due_at > now {
        return Ok(None);
    }
    let mut parcel = match found.is_held {
        false => vec![found],
        true => {
            let key = Key::of_text(&found.destination.key());
            tx.find_all(organization, &NOTIFICATIONS_HELD, &key, Order::OldestFirst, TOGETHER)?
        }
    };
    let most = u32::try_from(plan.retries.len()).unwrap_or(u32::MAX).saturating_add(1);
    let mut spent = Vec::new();
    parcel.retain_mut(|one| {
        if one.attempts >= most {
            spent.push(one.clone());
            return false;
        }
        one.attempts += 1;
        true
    });
    for one in spent {
        let trouble = Trouble::for_ever(NotificationErrorCode::Interrupted, "The service ended each time while this was being sent");
        close(tx, one, NotificationState::Failed, Some(&trouble), now)?;
    }
    for one in &parcel {
        tx.put(one)?;
    }
    Ok(if parcel.is_empty() { None } else { Some(Parcel { notifications: parcel }) })
}

/// Notes what came of a try.
pub(super) fn end(
    tx: &Change,
    parcel: &Parcel,
    result: &Result<NotificationState, Trouble>,
    plan: &Plan,
    now: Timestamp,
) -> Result<(), StoreError> {
    // All of a parcel are tried again together.
    let attempts = parcel.notifications.iter().map(|one| one.attempts).max().unwrap_or(0);
    for one in &parcel.notifications {
        let Some(mut one) = tx.get::<Notification>(one.organization_id, one.id)? else { continue };
        if one.state != NotificationState::Pending {
            continue;
        }
        match result {
            Ok(state) => close(tx, one, *state, None, now)?,
            Err(trouble) => {
                let wait = match trouble.again {
                    Again::Never => None,
                    Again::Later(asked) => plan.wait(attempts, asked),
                };
                match wait {
                    Some(wait) => {
                        one.due_at = now.plus(wait);
                        one.error = Some(trouble.error(now));
                        tx.put(&one)?;
                    }
                    None => close(tx, one, NotificationState::Failed, Some(trouble), now)?,
                }
            }
        }
    }
    Ok(())
}

fn close(
    tx: &Change,
    mut one: Notification,
    state: NotificationState,
    trouble: Option<&Trouble>,
    now: Timestamp,
) -> Result<(), StoreError> {
    one.state = state;
    one.finished_at = Some(now);
    one.error = trouble.map(|trouble| trouble.error(now));
    tx.put(&one)?;
    let Some(mut build) = tx.get::<Build>(one.organization_id, one.build_id)? else { return Ok(()) };
    let status = NotificationStatus::of(of_build(tx, one.organization_id, one.build_id)?.into_iter().map(|one| one.state));
    if build.notification_status != Some(status) {
        build.notification_status = Some(status);
        tx.put(&build)?;
    }
    Ok(())
}

/// Everything that a build has told or will tell, by destination.
pub fn of_build(rows: &impl Read, organization: Id<Organization>, build: Id<Build>) -> Result<Vec<Notification>, StoreError> {
    let mut found: Vec<Notification> =
        rows.find_all(organization, &NOTIFICATIONS_BY_BUILD, &Key::of_id(build), Order::OldestFirst, usize::MAX)?;
    found.sort_by(|one, other| one.destination.cmp(&other.destination));
    Ok(found)
}

/// Forgets what was over before `until`; how many. What a build's status says stays.
pub(super) fn forget(tx: &Change, until: Timestamp) -> Result<usize, StoreError> {
    let mut over: Vec<Notification> = tx.find_on_host(&NOTIFICATIONS_OVER, &Key::all(), FORGOTTEN_AT_ONCE)?;
    over.retain(|one| one.finished_at.is_some_and(|finished| finished < until));
    over.iter().try_for_each(|one| tx.remove::<Notification>(one.organization_id, one.id).map(|_| ()))?;
    Ok(over.len())
}
