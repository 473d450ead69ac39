//! Members of the organization, and their invitations (decisions 4).

use serde::Serialize;
use serde_json::Value;

use super::body::{self, BodyDigest, Fault, Fields, FromBody};
use super::conditional::check_match;
use super::cursor::Cursors;
use super::endpoint::{Anybody, Body, Call, Created, Head, NoContent, Ok200, Resource};
use super::error::{ApiError, Problem, Result};
use super::sessions;
use super::tokens::Paging;
use crate::model::page::Page;
use crate::model::permission::Role;
use crate::model::{Id, Secret, Timestamp, User};
use crate::people::{self, MAXIMUM_PASSWORD, NewMember, People, PeopleError};
use crate::store::{Order, Read};

/// A member.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemberView {
    id: Id<User>,
    email: String,
    name: String,
    role: Role,
    /// `invited` until the invitation is accepted, then `active`.
    status: &'static str,
    created_at: Timestamp,
    invitation_expires_at: Option<Timestamp>,
    /// Only in the answer that invites.
    #[serde(skip_serializing_if = "Option::is_none")]
    invitation_url: Option<String>,
}

impl MemberView {
    fn new(user: &User, invitation_url: Option<String>) -> Self {
        MemberView {
            id: user.id,
            email: user.email.clone(),
            name: user.name.clone(),
            role: user.role,
            status: if user.invitation.is_some() { "invited" } else { "active" },
            created_at: user.created_at,
            invitation_expires_at: user.invitation.as_ref().map(|invitation| invitation.expires_at),
            invitation_url,
        }
    }

    fn resource(user: &User) -> Resource<MemberView> {
        Resource { value: MemberView::new(user, None), version: user.version }
    }
}

/// Members, oldest first.
pub(super) async fn list(call: Call<(), Paging>) -> Result<Ok200<Page<MemberView>>> {
    let organization = call.caller.organization();
    let cursors = Cursors::new(&call.app.vault, organization, "listMembers", &[])?;
    let after = call.query.cursor.as_deref().map(|cursor| cursors.read::<User>(cursor)).transpose()?;
    let page = call.app.store.read(|snapshot| snapshot.page::<User>(organization, None, after, Order::OldestFirst, call.query.limit))?;
    let page: crate::store::Page<User> = page;
    let items = page.items.iter().map(|user| MemberView::new(user, None)).collect();
    Ok(Ok200(Page { items, next_cursor: page.next.map(|last| cursors.write(last)) }))
}

/// One member.
pub(super) async fn show(call: Call<Id<User>>) -> Result<Resource<MemberView>> {
    let user: Option<User> = call.app.store.read(|snapshot| snapshot.get(call.caller.organization(), call.path))?;
    Ok(MemberView::resource(&user.ok_or(Problem::NotFound)?))
}

impl FromBody for NewMember {
    async fn from_body(body: hyper::body::Incoming, head: &Head) -> Result<(Self, BodyDigest)> {
        let (mut fields, digest) = Fields::from_body(body, head).await?;
        let email = fields.required("email", email);
        let name = fields.required("name", body::name(80));
        let role = fields.required("role", role);
        fields.read_only(&["id", "status", "createdAt", "invitationExpiresAt", "invitationUrl"]);
        fields.finish()?;
        let all = (|| Some(NewMember { email: email?, name: name?, role: role? }))();
        Ok((all.ok_or_else(|| ApiError::validation(Vec::new()))?, digest))
    }
}

/// An e-mail address in the form it is stored in.
pub(super) fn email(value: Value) -> std::result::Result<String, Fault> {
    let text = body::text(254)(value)?;
    people::email(&text).map_err(|_| Fault::invalid("must be an e-mail address"))
}

fn role(value: Value) -> std::result::Result<Role, Fault> {
    let names = Role::ALL.map(Role::as_str);
    body::one_of(&names)(value)?.parse().map_err(|()| Fault::invalid("is no role"))
}

/// Invites somebody. The address in the answer is shown once.
pub(super) async fn invite(call: Call<(), (), NewMember>) -> Result<Created> {
    call.caller.check_unlimited()?;
    let (people, organization, new, idempotency) = (call.app.people.clone(), call.caller.organization(), call.body, call.idempotency);
    let secret = people.new_invitation()?;
    // Behind a `#`: browsers keep it to themselves, so that no proxy's log has it.
    let url = format!("{}/ui/accept-invitation#token={}", call.head.base_url, secret.reveal());
    let insert = move |change: &crate::store::Change| {
        let user = people.invite_in(change, organization, new, &secret)?;
        let created = Created::new(&format!("/members/{}", user.id), &MemberView::new(&user, Some(url)), Some(user.version))?;
        idempotency.remember(change, &created)?;
        Ok::<_, ApiError>(created)
    };
    call.app.store.write(insert).await
}

/// Gives a member another role.
pub(super) async fn change(call: Call<Id<User>, (), Fields>) -> Result<Resource<MemberView>> {
    call.caller.check_unlimited()?;
    let (caller, head, id, mut fields) = (call.caller, call.head, call.path, call.body);
    let found: Option<User> = call.app.store.read(|snapshot| snapshot.get(caller.organization(), id))?;
    found.ok_or(Problem::NotFound)?;
    let role = fields.optional("role", role);
    fields.read_only(&["id", "email", "name", "status", "createdAt", "invitationExpiresAt"]);
    fields.finish()?;
    let update = move |change: &crate::store::Change| {
        People::change_role_in(change, caller.organization(), id, role, |user| check_match(&head, user.version))
            .map(|user| MemberView::resource(&user))
    };
    call.app.store.write(update).await
}

/// Removes a member; their sessions and tokens end.
pub(super) async fn remove(call: Call<Id<User>>) -> Result<NoContent> {
    call.caller.check_unlimited()?;
    let (people, caller, head, id) = (call.app.people.clone(), call.caller, call.head, call.path);
    let delete = move |change: &crate::store::Change| {
        people.remove_member_in(change, caller.organization(), id, |user| check_match(&head, user.version)).map(|()| NoContent)
    };
    call.app.store.write(delete).await
}

/// Body of POST `/auth/accept-invitation`
pub(super) struct AcceptInvitation {
    token: Secret,
    name: Option<String>,
    password: Secret,
}

impl FromBody for AcceptInvitation {
    async fn from_body(body: hyper::body::Incoming, head: &Head) -> Result<(Self, BodyDigest)> {
        let (mut fields, digest) = Fields::from_body(body, head).await?;
        let token = fields.required("token", body::secret(256));
        let name = fields.change("name", body::name(80)).value();
        let password = fields.required("password", body::secret(MAXIMUM_PASSWORD));
        fields.finish()?;
        let all = token.zip(password).map(|(token, password)| AcceptInvitation { token, name, password });
        Ok((all.ok_or_else(|| ApiError::validation(Vec::new()))?, digest))
    }
}

/// Accepts an invitation, once, and begins a session.
pub(super) async fn accept(call: Call<(), (), AcceptInvitation, Anybody>) -> Result<hyper::Response<Body>> {
    let AcceptInvitation { token, name, password } = call.body;
    let signed_in = call.app.people.accept_invitation(&token, name.as_deref(), password).await.map_err(|error| match error {
        PeopleError::Unknown => {
            ApiError::new(Problem::Unauthenticated, "This is no invitation, or it was used already; ask for a new one.")
        }
        PeopleError::Expired => ApiError::new(Problem::TokenExpired, "This invitation has expired; ask for a new one."),
        error => error.into(),
    })?;
    sessions::session(signed_in, &call.head, hyper::StatusCode::OK)
}
