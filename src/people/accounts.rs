//! Accounts and organizations: the first admin, further ones, forgotten passwords.

use std::sync::Arc;

use super::passwords::{MAXIMUM_PASSWORD, MINIMUM_PASSWORD};
use super::{People, PeopleError};
use crate::clock::Clock;
use crate::model::organization::{DefaultProjectSettings, IntegrationSettings};
use crate::model::permission::Role;
use crate::model::{Organization, Secret, User};
use crate::store::key::Key;
use crate::store::{Change, Read, StoreError, tables};

/// An admin to be made.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// Unique on the host.
    pub email: String,
    /// What they are called.
    pub name: String,
    /// Their password.
    pub password: Secret,
}

/// An e-mail address in the form it is stored and compared in.
pub fn email(text: &str) -> Result<String, PeopleError> {
    let email = text.trim().to_lowercase();
    let is_plain =
        !email.chars().any(|character| character.is_whitespace() || character.is_control() || "<>()[],;:\\\"".contains(character));
    let is_label = |label: &str| {
        let is_allowed = |character: char| character.is_ascii_alphanumeric() || character == '-' || !character.is_ascii();
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.chars().all(is_allowed)
    };
    let has_parts = email.split_once('@').is_some_and(|(local, domain)| !local.is_empty() && domain.split('.').all(is_label));
    if is_plain && has_parts && email.len() <= 254 {
        return Ok(email);
    }
    Err(PeopleError::Invalid { field: "email", reason: "must be an e-mail address".into() })
}

/// What is wrong with a name of at most `maximum` characters.
pub fn name_fault(name: &str, maximum: usize) -> Option<String> {
    let name = name.trim();
    if name.is_empty() {
        Some("must not be blank".into())
    } else if name.chars().count() > maximum {
        Some(format!("must have at most {maximum} characters"))
    } else if name.chars().any(char::is_control) {
        Some("must not contain control characters".into())
    } else {
        None
    }
}

pub(super) fn check_name(field: &'static str, name: &str, maximum: usize) -> Result<String, PeopleError> {
    match name_fault(name, maximum) {
        Some(reason) => Err(PeopleError::Invalid { field, reason }),
        None => Ok(name.trim().to_owned()),
    }
}

pub(super) fn check_password(password: &Secret) -> Result<(), PeopleError> {
    let text = password.reveal();
    let reason = if text.chars().count() < MINIMUM_PASSWORD {
        format!("must have at least {MINIMUM_PASSWORD} characters")
    } else if text.chars().count() > MAXIMUM_PASSWORD {
        format!("must have at most {MAXIMUM_PASSWORD} characters")
    } else {
        return Ok(());
    };
    Err(PeopleError::Invalid { field: "password", reason })
}

impl People {
    /// Whether nobody exists yet: the first start.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        self.store.read(|snapshot| Ok(snapshot.find_on_host(&tables::ORGANIZATIONS_ALL, &Key::all(), 1)?.is_empty()))
    }

    /// The first admin with the first organization; refused once there is one.
    pub async fn create_first(&self, account: NewAccount, organization: &str) -> Result<(Organization, User), PeopleError> {
        let organization = check_name("organizationName", organization, 80)?;
        let (account, password_hash) = self.prepare(account).await?;
        let clock = self.clock.clone();
        self.store
            .write(move |change| {
                if !change.find_on_host(&tables::ORGANIZATIONS_ALL, &Key::all(), 1)?.is_empty() {
                    return Err(PeopleError::AlreadySetUp);
                }
                let organization = new_organization(change, &clock, &organization)?;
                let user = put_admin(change, &clock, &organization, account, password_hash)?;
                Ok((organization, user))
            })
            .await
    }

    /// An admin made by the host's owner. With a name: in a new organization; without: in the only one there is, or in a
    /// new one on an empty host.
    pub async fn create_admin(&self, account: NewAccount, organization: Option<&str>) -> Result<(Organization, User), PeopleError> {
        let organization = organization.map(|name| check_name("organizationName", name, 80)).transpose()?;
        let (account, password_hash) = self.prepare(account).await?;
        let clock = self.clock.clone();
        self.store
            .write(move |change| {
                let mut existing = change.find_on_host(&tables::ORGANIZATIONS_ALL, &Key::all(), 2)?;
                let organization = match (organization, existing.len()) {
                    (Some(name), _) => new_organization(change, &clock, &name)?,
                    (None, 0) => new_organization(change, &clock, "Studio")?,
                    (None, 1) => existing.remove(0),
                    (None, _) => {
                        let message = "this host has several organizations: admins of an existing one are invited from within it; \
                                       --organization NAME makes a new one";
                        return Err(PeopleError::Organization(message.into()));
                    }
                };
                let user = put_admin(change, &clock, &organization, account, password_hash)?;
                Ok((organization, user))
            })
            .await
    }

    /// A new password; every session of the person ends.
    pub async fn reset_password(&self, email_address: &str, password: Secret) -> Result<User, PeopleError> {
        let address = email(email_address)?;
        check_password(&password)?;
        let password_hash = self.passwords.hash(&password).await?;
        let now = self.clock.now();
        self.store
            .write(move |change| {
                let mut found = change.find_on_host(&tables::USERS_BY_EMAIL, &Key::of_text(&address), 1)?;
                let user = found.pop().ok_or(PeopleError::NoSuchUser(address))?;
                let user = User { password_hash, sessions_valid_from: now, invitation: None, ..user };
                change.put(&user)?;
                Ok(user)
            })
            .await
    }

    /// Somebody by their e-mail address.
    pub fn find_user(&self, email_address: &str) -> Result<User, PeopleError> {
        let address = email(email_address)?;
        let found = self.store.read(|snapshot| snapshot.find_on_host(&tables::USERS_BY_EMAIL, &Key::of_text(&address), 1))?;
        found.into_iter().next().ok_or(PeopleError::NoSuchUser(address))
    }

    async fn prepare(&self, account: NewAccount) -> Result<(NewAccount, String), PeopleError> {
        let email = email(&account.email)?;
        let name = check_name("name", &account.name, 80)?;
        check_password(&account.password)?;
        let password_hash = self.passwords.hash(&account.password).await?;
        Ok((NewAccount { email, name, password: account.password }, password_hash))
    }
}

fn new_organization(change: &Change, clock: &Arc<Clock>, name: &str) -> Result<Organization, StoreError> {
    let now = clock.now();
    let taken: Vec<Organization> = change.find_on_host(&tables::ORGANIZATIONS_ALL, &Key::all(), usize::MAX)?;
    let organization = Organization {
        id: clock.new_id(),
        name: name.to_owned(),
        slug: free_slug(name, |slug| taken.iter().any(|other| other.slug == slug)),
        default_project_settings: DefaultProjectSettings::default(),
        integration_settings: IntegrationSettings::default(),
        githost: None,
        streamvc: None,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    change.put(&organization)?;
    Ok(organization)
}

/// Lower-case letters, digits and single hyphens; numbered when taken.
fn free_slug(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let lower: String =
        name.to_lowercase().chars().map(|character| if character.is_ascii_alphanumeric() { character } else { ' ' }).collect();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let slug = if words.is_empty() { "studio".to_owned() } else { words.join("-") };
    let numbered = (2..).map(|number| format!("{slug}-{number}"));
    std::iter::once(slug.clone()).chain(numbered).find(|slug| !is_taken(slug)).unwrap_or(slug)
}

fn put_admin(
    change: &Change,
    clock: &Arc<Clock>,
    organization: &Organization,
    account: NewAccount,
    password_hash: String,
) -> Result<User, PeopleError> {
    if !change.find_on_host(&tables::USERS_BY_EMAIL, &Key::of_text(&account.email), 1)?.is_empty() {
        return Err(PeopleError::EmailTaken);
    }
    let now = clock.now();
    let user = User {
        id: clock.new_id(),
        organization_id: organization.id,
        email: account.email,
        name: account.name,
        role: Role::Admin,
        password_hash,
        created_at: now,
        sessions_valid_from: now,
        invitation: None,
        version: 1,
    };
    change.put(&user)?;
    Ok(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_in_one_form_and_oddities_refused() {
        assert_eq!(email(" Ada@Example.COM ").unwrap(), "ada@example.com");
        for text in ["", "a", "@b", "a@", "a@b@c", "a b@c", "a@b\r\nBcc: x@y", "\"a\"@b", "<a@b>"] {
            assert!(email(text).is_err(), "{text}");
        }
    }

    #[test]
    fn slugs_are_plain_and_free() {
        assert_eq!(free_slug("Über  Studio #1", |_| false), "ber-studio-1");
        assert_eq!(free_slug("日本", |slug| slug == "studio"), "studio-2");
    }
}
