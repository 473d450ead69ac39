//! API tokens: made, listed, revoked, renewed. A token never reaches further than its maker.

use super::bearer::{self, Kind};
use super::{Bearer, People, PeopleError, Principal};
use crate::model::permission::{Role, Scope};
use crate::model::{ApiToken, BuildSetting, Id, Project, Secret, Timestamp, User};
use crate::store::{Change, Read};

/// A token to be made. Its parts are checked by [`People::new_token`].
#[derive(Debug, Clone)]
pub struct NewToken {
    /// What it is for.
    pub name: String,
    /// At least one.
    pub scopes: Vec<Scope>,
    /// Only these projects.
    pub project_ids: Option<Vec<Id<Project>>>,
    /// Only these settings.
    pub build_setting_ids: Option<Vec<Id<BuildSetting>>>,
    /// In the future.
    pub expires_at: Option<Timestamp>,
}

/// How far the maker of a token reaches: the new one reaches no further.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Whose the new token is.
    pub user: User,
    /// The token that makes it; `None` in a signed-in session and on the host's own command line.
    pub token: Option<ApiToken>,
}

impl From<&Principal> for Reach {
    fn from(principal: &Principal) -> Self {
        let token = match &principal.bearer {
            Bearer::Session(_) => None,
            Bearer::Token(token) => Some((**token).clone()),
        };
        Reach { user: principal.user.clone(), token }
    }
}

impl People {
    /// Checks and makes a token; nothing is stored before [`People::put_token`]. The secret is shown once.
    pub fn new_token(&self, reach: &Reach, new: NewToken) -> Result<(ApiToken, Secret), PeopleError> {
        let invalid = |field, reason: &str| PeopleError::Invalid { field, reason: reason.into() };
        if let Some(reason) = super::name_fault(&new.name, 80) {
            return Err(PeopleError::Invalid { field: "name", reason });
        }
        if new.scopes.is_empty() {
            return Err(invalid("scopes", "must name at least one scope"));
        }
        if let Some(scope) = new.scopes.iter().find(|scope| least_role(**scope) > reach.user.role) {
            return Err(PeopleError::Invalid { field: "scopes", reason: format!("your role does not reach {}", scope.as_str()) });
        }
        let now = self.clock.now();
        if new.expires_at.is_some_and(|end| end <= now) {
            return Err(invalid("expiresAt", "must lie in the future"));
        }
        let maker = reach.token.as_ref();
        let (project_ids, build_setting_ids) = (dedup(new.project_ids), dedup(new.build_setting_ids));
        if !is_within(project_ids.as_deref(), maker.and_then(|maker| maker.project_ids.as_deref())) {
            return Err(invalid("projectIds", "must not reach further than the token that makes this one"));
        }
        if !is_within(build_setting_ids.as_deref(), maker.and_then(|maker| maker.build_setting_ids.as_deref())) {
            return Err(invalid("buildSettingIds", "must not reach further than the token that makes this one"));
        }
        if let Some(end) = maker.and_then(|maker| maker.expires_at)
            && new.expires_at.is_none_or(|new| new > end)
        {
            return Err(invalid("expiresAt", "must not outlive the token that makes this one"));
        }
        let secret = bearer::new(Kind::Token).map_err(|error| PeopleError::Hash(error.to_string()))?;
        let mut scopes = new.scopes;
        scopes.sort_unstable();
        scopes.dedup();
        let token = ApiToken {
            id: self.clock.new_id(),
            organization_id: reach.user.organization_id,
            user_id: reach.user.id,
            name: new.name.trim().to_owned(),
            scopes,
            project_ids,
            build_setting_ids,
            token_hash: bearer::hash(secret.reveal()),
            created_at: now,
            expires_at: new.expires_at,
            last_used_at: None,
            revoked_at: None,
        };
        Ok((token, secret))
    }

    /// Stores a new token, if the projects and settings that it names exist.
    pub fn put_token(change: &Change, token: &ApiToken) -> Result<(), PeopleError> {
        for id in token.project_ids.iter().flatten() {
            if change.get::<Project>(token.organization_id, *id)?.is_none() {
                return Err(PeopleError::Invalid { field: "projectIds", reason: format!("there is no project {id}") });
            }
        }
        for id in token.build_setting_ids.iter().flatten() {
            if change.get::<BuildSetting>(token.organization_id, *id)?.is_none() {
                return Err(PeopleError::Invalid { field: "buildSettingIds", reason: format!("there is no build setting {id}") });
            }
        }
        Ok(change.put(token)?)
    }

    /// Makes and stores a token in one go; for the command line.
    pub async fn create_token(&self, reach: &Reach, new: NewToken) -> Result<(ApiToken, Secret), PeopleError> {
        let (token, secret) = self.new_token(reach, new)?;
        let stored = token.clone();
        self.store.write(move |change| Self::put_token(change, &stored)).await?;
        Ok((token, secret))
    }

    /// Revokes a token that `reach` may revoke: one's own, or any as an admin. Revoked ones are no tokens any more.
    pub async fn revoke_token(&self, reach: &Reach, id: Id<ApiToken>) -> Result<(), PeopleError> {
        let (now, reach) = (self.clock.now(), reach.clone());
        self.store
            .write(move |change| {
                let token = change.get(reach.user.organization_id, id)?.filter(|token| may_manage(&reach, token));
                let token: ApiToken = token.ok_or(PeopleError::NoSuchToken)?;
                Ok(change.put(&ApiToken { revoked_at: Some(now), ..token })?)
            })
            .await
    }

    /// A new secret for a token; the old one ends at once. Stored by the caller's transaction.
    pub fn renew_token(&self, change: &Change, reach: &Reach, id: Id<ApiToken>, secret: &Secret) -> Result<ApiToken, PeopleError> {
        let token = change.get(reach.user.organization_id, id)?.filter(|token| may_manage(reach, token));
        let token: ApiToken = token.ok_or(PeopleError::NoSuchToken)?;
        let token = ApiToken { token_hash: bearer::hash(secret.reveal()), last_used_at: None, ..token };
        change.put(&token)?;
        Ok(token)
    }

    /// Whether `reach` may see and revoke a token.
    pub fn may_see_token(reach: &Reach, token: &ApiToken) -> bool {
        may_manage(reach, token)
    }
}

fn may_manage(reach: &Reach, token: &ApiToken) -> bool {
    token.revoked_at.is_none() && (token.user_id == reach.user.id || reach.user.role == Role::Admin)
}

/// The least role for which a scope is of any use.
fn least_role(scope: Scope) -> Role {
    match scope {
        Scope::Read => Role::Viewer,
        Scope::Trigger | Scope::Write => Role::Member,
        Scope::Admin => Role::Admin,
    }
}

fn dedup<R>(ids: Option<Vec<Id<R>>>) -> Option<Vec<Id<R>>> {
    let mut ids = ids?;
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

/// Whether a limit lies inside its maker's limit. No limit lies only inside no limit.
fn is_within<R>(new: Option<&[Id<R>]>, maker: Option<&[Id<R>]>) -> bool {
    match (new, maker) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(new), Some(maker)) => new.iter().all(|id| maker.contains(id)),
    }
}
