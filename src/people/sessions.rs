//! Signing in and out, and who a bearer belongs to.

use std::net::IpAddr;
use std::time::Duration;

use super::bearer::{self, Kind};
use super::{Bearer, People, PeopleError, Principal};
use crate::model::user::Session;
use crate::model::{Id, Organization, Secret, Timestamp, User};
use crate::store::key::Key;
use crate::store::{Read, StoreError, audit, tables};

/// A session ends so long after its last use.
const IDLE: Duration = Duration::from_secs(8 * 3600);
/// A session ends so long after its beginning.
const ABSOLUTE: Duration = Duration::from_secs(24 * 3600);
/// Uses are noted at most this often.
const NOTED_EVERY: u64 = 60_000;
/// Sessions of one person; the oldest go.
const SESSIONS_KEPT: usize = 50;

/// A fresh session.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The bearer, shown once.
    pub access_token: Secret,
    /// When it ends at the latest.
    pub expires_at: Timestamp,
    /// Who.
    pub user: User,
    /// Whose member.
    pub organization: Organization,
}

impl People {
    /// Signs somebody in. Whether the address or the password was wrong is not told.
    pub async fn sign_in(&self, email_address: &str, password: &Secret, from: IpAddr) -> Result<SignedIn, PeopleError> {
        let address = super::email(email_address).map_err(|_| PeopleError::Unknown)?;
        self.throttle.begin(&address, from, self.clock.now()).map_err(PeopleError::TooManyAttempts)?;
        let found: Vec<User> = self.store.read(|snapshot| snapshot.find_on_host(&tables::USERS_BY_EMAIL, &Key::of_text(&address), 1))?;
        let user = found.into_iter().next();
        if let Some(user) = &user {
            audit::concerns(user);
        }
        // Somebody who has not accepted their invitation has no password: as slow as for nobody.
        let hash = user.as_ref().map(|user| user.password_hash.as_str()).filter(|hash| !hash.is_empty());
        if !self.passwords.matches(password, hash).await? {
            return Err(PeopleError::Unknown);
        }
        self.throttle.succeeded(&address, from);
        self.begin_session(user.ok_or(PeopleError::Unknown)?).await
    }

    /// A session for somebody who is known to be themselves.
    pub async fn begin_session(&self, user: User) -> Result<SignedIn, PeopleError> {
        let access_token = bearer::new(Kind::Session).map_err(|error| PeopleError::Hash(error.to_string()))?;
        let now = self.clock.now();
        let session = Session {
            id: self.clock.new_id(),
            organization_id: user.organization_id,
            user_id: user.id,
            token_hash: bearer::hash(access_token.reveal()),
            created_at: now,
            last_used_at: now,
        };
        let (user, organization) = self
            .store
            .write(move |change| {
                let organization = user.organization_id;
                change.acts(&user);
                // What ended is swept here: no clock of its own is needed for it.
                let key = Key::of_id(user.id);
                let old: Vec<Session> =
                    change.find_all(organization, &tables::SESSIONS_BY_USER, &key, crate::store::Order::NewestFirst, usize::MAX)?;
                for (position, session) in old.iter().enumerate() {
                    if position + 1 >= SESSIONS_KEPT || ends_at(session) <= now {
                        change.remove(organization, session.id)?;
                    }
                }
                change.put(&session)?;
                let organization = change.get(organization, organization)?.ok_or(PeopleError::Unknown)?;
                Ok::<_, PeopleError>((user, organization))
            })
            .await?;
        Ok(SignedIn { access_token, expires_at: now.plus(ABSOLUTE), user, organization })
    }

    /// Removes the records of sessions that ended. How many.
    pub async fn forget_ended_sessions(&self) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let mut ended = Vec::new();
        self.store.read(|snapshot| {
            snapshot.every::<Session>(|session| {
                ended.extend((ends_at(&session) <= now).then_some((session.organization_id, session.id)));
                Ok(true)
            })
        })?;
        let mut removed = 0;
        for some in ended.chunks(64) {
            let some = some.to_vec();
            removed += some.len();
            let remove = move |change: &crate::store::Change| {
                some.iter().try_for_each(|(organization, id)| change.remove::<Session>(*organization, *id).map(|_| ()))
            };
            self.store.write::<(), StoreError>(remove).await?;
        }
        Ok(removed)
    }

    /// Ends a session.
    pub async fn sign_out(&self, organization: Id<Organization>, session: Id<Session>) -> Result<(), PeopleError> {
        self.store.write(move |change| change.remove(organization, session).map(|_| ()).map_err(PeopleError::Store)).await
    }

    /// Who a bearer belongs to.
    pub fn identify(&self, bearer: &str) -> Result<Principal, PeopleError> {
        match bearer::kind_of(bearer) {
            Some(Kind::Token) => self.identify_token(&bearer::hash(bearer)),
            Some(Kind::Session) => self.identify_session(&bearer::hash(bearer)),
            Some(Kind::Setup | Kind::Invitation | Kind::Ticket) | None => Err(PeopleError::Unknown),
        }
    }

    /// Whether what somebody showed a while ago still holds, and what it is worth now. Counts as no use of it.
    pub fn identify_again(&self, principal: &Principal) -> Result<Principal, PeopleError> {
        let (now, organization) = (self.clock.now(), principal.user.organization_id);
        self.store.read(|snapshot| {
            let user: User = snapshot.get(organization, principal.user.id)?.ok_or(PeopleError::Revoked)?;
            let bearer = match &principal.bearer {
                Bearer::Session(id) => {
                    let session: Session = snapshot.get(organization, *id)?.ok_or(PeopleError::Unknown)?;
                    if ends_at(&session) <= now || session.created_at < user.sessions_valid_from {
                        return Err(PeopleError::Expired);
                    }
                    Bearer::Session(*id)
                }
                Bearer::Token(shown) => {
                    let token: crate::model::ApiToken = snapshot.get(organization, shown.id)?.ok_or(PeopleError::Unknown)?;
                    if token.revoked_at.is_some() || token.token_hash != shown.token_hash {
                        return Err(PeopleError::Revoked);
                    }
                    if token.expires_at.is_some_and(|end| end <= now) {
                        return Err(PeopleError::Expired);
                    }
                    Bearer::Token(Box::new(token))
                }
            };
            Ok(Principal { user, bearer })
        })
    }

    fn identify_session(&self, hash: &str) -> Result<Principal, PeopleError> {
        let now = self.clock.now();
        let (session, user) = self.store.read(|snapshot| {
            let found = snapshot.find_on_host(&tables::SESSIONS_BY_HASH, &Key::of_text(hash), 1)?;
            let session: Session = found.into_iter().next().ok_or(PeopleError::Unknown)?;
            let user: User = snapshot.get(session.organization_id, session.user_id)?.ok_or(PeopleError::Unknown)?;
            Ok::<_, PeopleError>((session, user))
        })?;
        if ends_at(&session) <= now || session.created_at < user.sessions_valid_from {
            return Err(PeopleError::Expired);
        }
        let bearer = Bearer::Session(session.id);
        if now.since(session.last_used_at) >= NOTED_EVERY {
            self.note_use(move |change| match change.get(session.organization_id, session.id)? {
                Some(session) => change.put(&Session { last_used_at: now, ..session }),
                None => Ok(()),
            });
        }
        Ok(Principal { user, bearer })
    }

    fn identify_token(&self, hash: &str) -> Result<Principal, PeopleError> {
        let now = self.clock.now();
        let (token, user) = self.store.read(|snapshot| {
            let found = snapshot.find_on_host(&tables::API_TOKENS_BY_HASH, &Key::of_text(hash), 1)?;
            let token: crate::model::ApiToken = found.into_iter().next().ok_or(PeopleError::Unknown)?;
            let user: User = snapshot.get(token.organization_id, token.user_id)?.ok_or(PeopleError::Revoked)?;
            Ok::<_, PeopleError>((token, user))
        })?;
        if token.revoked_at.is_some() {
            return Err(PeopleError::Revoked);
        }
        if token.expires_at.is_some_and(|end| end <= now) {
            return Err(PeopleError::Expired);
        }
        if token.last_used_at.is_none_or(|last| now.since(last) >= NOTED_EVERY) {
            let (organization, id) = (token.organization_id, token.id);
            self.note_use(move |change| match change.get(organization, id)? {
                Some(token) => change.put(&crate::model::ApiToken { last_used_at: Some(now), ..token }),
                None => Ok(()),
            });
        }
        Ok(Principal { user, bearer: Bearer::Token(Box::new(token)) })
    }

    /// Nobody waits for the note of a use, and nobody misses it.
    fn note_use(&self, job: impl FnOnce(&crate::store::Change) -> Result<(), StoreError> + Send + 'static) {
        let store = self.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.write(job).await {
                tracing::debug!(%error, "the use of a token was not noted");
            }
        });
    }
}

fn ends_at(session: &Session) -> Timestamp {
    session.last_used_at.plus(IDLE).min(session.created_at.plus(ABSOLUTE))
}
