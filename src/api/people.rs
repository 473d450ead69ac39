//! People's problems as the API tells them, and the shapes that several rows show.

use schemars::JsonSchema;
use serde::Serialize;

use super::error::{ApiError, Problem};
use crate::model::organization::PLAN;
use crate::model::permission::Role;
use crate::model::validation::InvalidCode;
use crate::model::{Id, Organization, User};
use crate::people::PeopleError;

impl From<PeopleError> for ApiError {
    /// For rows that make or change people and tokens; refusals of a bearer are `auth`'s.
    fn from(error: PeopleError) -> Self {
        match error {
            PeopleError::Unknown => ApiError::new(Problem::Unauthenticated, "E-mail address and password do not belong together."),
            PeopleError::Expired => Problem::TokenExpired.into(),
            PeopleError::Revoked => Problem::TokenRevoked.into(),
            PeopleError::TooManyAttempts(seconds) => {
                let message = "Too many failed logins for this account from this address; wait as long as `Retry-After` says.";
                ApiError::new(Problem::RateLimited, message).retry_after(seconds)
            }
            PeopleError::Busy => ApiError::new(Problem::RateLimited, "Many people are signing in; try again in a moment.").retry_after(1),
            PeopleError::EmailTaken => ApiError::field("email", InvalidCode::NotAllowed, error.to_string()),
            PeopleError::Invalid { field, reason } => ApiError::field(field, InvalidCode::InvalidValue, reason),
            PeopleError::AlreadySetUp | PeopleError::NoSuchMember | PeopleError::NoSuchToken => Problem::NotFound.into(),
            PeopleError::LastAdmin => Problem::LastAdmin.into(),
            PeopleError::NoSuchUser(_) | PeopleError::Organization(_) | PeopleError::Hash(_) | PeopleError::File(_) => {
                ApiError::internal(error)
            }
            PeopleError::Store(error) => error.into(),
        }
    }
}

/// A person.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "User")]
pub(super) struct UserView {
    /// Their id.
    id: Id<User>,
    /// What they sign in with.
    #[schemars(example = &"ada@kitchen.example")]
    email: String,
    /// What people call them.
    #[schemars(example = &"Ada Cook")]
    name: String,
}

/// An organization in short.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OrganizationSummary")]
pub(super) struct OrganizationView {
    /// Its id.
    id: Id<Organization>,
    /// What people call it.
    #[schemars(example = &"Kitchen Studio")]
    name: String,
    /// Made from the first name, never changes.
    #[schemars(example = &"kitchen-studio")]
    slug: String,
    /// Always `self-hosted`.
    #[schemars(extend("enum" = [PLAN]))]
    plan: &'static str,
}

/// Membership of an organization.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Membership")]
pub(super) struct MembershipView {
    /// What they may do.
    role: Role,
}

/// Who somebody is, and where.
#[derive(Serialize, JsonSchema)]
pub(super) struct Identity {
    /// Who is signed in, or whose token it is.
    user: UserView,
    /// Whose resources they see.
    organization: OrganizationView,
    /// Their place in it.
    membership: MembershipView,
}

impl Identity {
    pub(super) fn new(user: &User, organization: &Organization) -> Self {
        Identity {
            user: UserView { id: user.id, email: user.email.clone(), name: user.name.clone() },
            organization: OrganizationView {
                id: organization.id,
                name: organization.name.clone(),
                slug: organization.slug.clone(),
                plan: PLAN,
            },
            membership: MembershipView { role: user.role },
        }
    }
}
