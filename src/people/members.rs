//! Members of an organization: invited, welcomed, promoted, removed.

use std::time::Duration;

use super::accounts::{check_name, check_password};
use super::bearer::{self, Kind};
use super::{People, PeopleError, SignedIn};
use crate::model::permission::Role;
use crate::model::user::{Invitation, Session};
use crate::model::{ApiToken, Id, Organization, Secret, Timestamp, User};
use crate::store::key::Key;
use crate::store::{Change, Order, Read, StoreError, audit, tables};

/// How long an invitation holds.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// Somebody to be invited.
#[derive(Debug, Clone)]
pub struct NewMember {
    /// In the form of [`super::email`].
    pub email: String,
    /// What they are called; they may say otherwise when they accept.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

impl People {
    /// The secret of an invitation; shown once.
    pub fn new_invitation(&self) -> Result<Secret, PeopleError> {
        bearer::new(Kind::Invitation).map_err(|error| PeopleError::Hash(error.to_string()))
    }

    /// Makes somebody a member who cannot sign in before they accept. Inviting somebody again who has not accepted yet
    /// replaces the former invitation.
    pub fn invite_in(
        &self,
        change: &Change,
        organization_id: Id<Organization>,
        new: NewMember,
        secret: &Secret,
    ) -> Result<User, PeopleError> {
        let now = self.clock.now();
        let invitation = Some(Invitation { token_hash: bearer::hash(secret.reveal()), expires_at: now.plus(LIFETIME) });
        let found: Vec<User> = change.find_on_host(&tables::USERS_BY_EMAIL, &Key::of_text(&new.email), 1)?;
        let user = match found.into_iter().next() {
            Some(waiting) if waiting.organization_id == organization_id && is_open(&waiting) => {
                User { name: new.name, role: new.role, invitation, version: waiting.version + 1, ..waiting }
            }
            // An address that another organization once invited in vain is free.
            Some(other) if is_open(&other) && is_over(&other, now) => {
                change.remove(other.organization_id, other.id)?;
                self.blank(organization_id, new, invitation, now)
            }
            Some(_) => return Err(PeopleError::EmailTaken),
            None => self.blank(organization_id, new, invitation, now),
        };
        change.put(&user)?;
        Ok(user)
    }

    fn blank(&self, organization_id: Id<Organization>, new: NewMember, invitation: Option<Invitation>, now: Timestamp) -> User {
        User {
            id: self.clock.new_id(),
            organization_id,
            email: new.email,
            name: new.name,
            role: new.role,
            password_hash: String::new(),
            created_at: now,
            sessions_valid_from: now,
            invitation,
            version: 1,
        }
    }

    /// Accepts an invitation, once: the person has a password from now on, and is signed in.
    pub async fn accept_invitation(&self, token: &Secret, name: Option<&str>, password: Secret) -> Result<SignedIn, PeopleError> {
        if bearer::kind_of(token.reveal()) != Some(Kind::Invitation) {
            return Err(PeopleError::Unknown);
        }
        let hash = bearer::hash(token.reveal());
        // Before a password is hashed, which is dear.
        let found = self.store.read(|snapshot| invited(snapshot, &hash))?;
        audit::concerns(&found);
        if is_over(&found, self.clock.now()) {
            return Err(PeopleError::Expired);
        }
        let name = name.map(|name| check_name("name", name, 80)).transpose()?;
        check_password(&password)?;
        let password_hash = self.passwords.hash(&password).await?;
        let now = self.clock.now();
        let accept = move |change: &Change| {
            let user = invited(change, &hash)?;
            let name = name.unwrap_or_else(|| user.name.clone());
            let version = user.version + 1;
            let user = User { name, password_hash, sessions_valid_from: now, invitation: None, version, ..user };
            change.acts(&user);
            change.put(&user)?;
            Ok::<_, PeopleError>(user)
        };
        let user = self.store.write(accept).await?;
        self.begin_session(user).await
    }

    /// Gives a member another role. `judge` may refuse the member as it is (a precondition).
    pub fn change_role_in<E: From<PeopleError>>(
        change: &Change,
        organization: Id<Organization>,
        id: Id<User>,
        role: Option<Role>,
        judge: impl FnOnce(&User) -> Result<(), E>,
    ) -> Result<User, E> {
        let mut user = member(change, organization, id)?;
        judge(&user)?;
        if let Some(role) = role.filter(|role| *role != user.role) {
            if role < Role::Admin {
                check_not_last_admin(change, &user)?;
            }
            user.role = role;
            user.version += 1;
            change.put(&user).map_err(PeopleError::from)?;
        }
        Ok(user)
    }

    /// Removes a member: their sessions end, their tokens are revoked.
    pub fn remove_member_in<E: From<PeopleError>>(
        &self,
        change: &Change,
        organization: Id<Organization>,
        id: Id<User>,
        judge: impl FnOnce(&User) -> Result<(), E>,
    ) -> Result<(), E> {
        let user = member(change, organization, id)?;
        judge(&user)?;
        check_not_last_admin(change, &user)?;
        end_access(change, &user, self.clock.now()).map_err(PeopleError::from)?;
        change.remove(organization, id).map_err(PeopleError::from)?;
        Ok(())
    }
}

/// Whether somebody was invited and has not accepted.
fn is_open(user: &User) -> bool {
    user.invitation.is_some()
}

fn is_over(user: &User, now: Timestamp) -> bool {
    user.invitation.as_ref().is_some_and(|invitation| invitation.expires_at <= now)
}

fn invited(rows: &impl Read, hash: &str) -> Result<User, PeopleError> {
    let found = rows.find_on_host(&tables::USERS_BY_INVITATION, &Key::of_text(hash), 1)?;
    found.into_iter().next().ok_or(PeopleError::Unknown)
}

fn member(rows: &impl Read, organization: Id<Organization>, id: Id<User>) -> Result<User, PeopleError> {
    rows.get(organization, id)?.ok_or(PeopleError::NoSuchMember)
}

/// Somebody has to be left who can sign in and administer.
fn check_not_last_admin(rows: &impl Read, user: &User) -> Result<(), PeopleError> {
    let is_admin = |user: &User| user.role == Role::Admin && !is_open(user);
    if !is_admin(user) {
        return Ok(());
    }
    let mut has_other = false;
    rows.for_each::<User>(user.organization_id, None, |other| {
        has_other |= other.id != user.id && is_admin(&other);
        Ok(!has_other)
    })?;
    if has_other { Ok(()) } else { Err(PeopleError::LastAdmin) }
}

fn end_access(change: &Change, user: &User, now: Timestamp) -> Result<(), StoreError> {
    let (organization, key) = (user.organization_id, Key::of_id(user.id));
    let sessions: Vec<Session> = change.find_all(organization, &tables::SESSIONS_BY_USER, &key, Order::OldestFirst, usize::MAX)?;
    for session in sessions {
        change.remove(organization, session.id)?;
    }
    let tokens: Vec<ApiToken> = change.find_all(organization, &tables::API_TOKENS_BY_USER, &key, Order::OldestFirst, usize::MAX)?;
    for token in tokens.into_iter().filter(|token| token.revoked_at.is_none()) {
        change.put(&ApiToken { revoked_at: Some(now), ..token })?;
    }
    Ok(())
}
