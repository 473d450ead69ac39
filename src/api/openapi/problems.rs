//! What can go wrong with a row.

use hyper::Method;

use super::shape::Shape;
use crate::api::endpoint::{Access, Produces, Route};
use crate::api::error::Problem;
use crate::app;
use crate::model::permission::Role;

/// Every problem that the row may answer with, in the order of the table of problems.
pub(super) fn of(route: &Route, shape: &Shape) -> Vec<Problem> {
    let mut found = vec![Problem::ValidationFailed, Problem::HeadersTooLarge, Problem::Internal, Problem::Draining];
    let mut add = |condition: bool, problems: &[Problem]| found.extend(problems.iter().filter(|_| condition));
    let is_safe = route.method == Method::GET;
    let has_parameter = |name: &str| shape.query.iter().any(|parameter| parameter.name == name);
    let in_parts = shape.answers.iter().any(|answer| answer.status == hyper::StatusCode::PARTIAL_CONTENT);
    if let Access::Needs(permission) = route.access {
        let (role, scope) = permission.needs();
        add(true, &[Problem::Unauthenticated, Problem::TokenExpired, Problem::TokenRevoked]);
        // A cookie from another origin changes nothing.
        add(role > Role::Viewer || !is_safe, &[Problem::Forbidden]);
        add(scope.is_some(), &[Problem::InsufficientScope]);
    }
    add(true, &[Problem::RateLimited]);
    add(route.produces == Produces::Json, &[Problem::NotAcceptable]);
    add(!is_safe, &[Problem::StorageFull]);
    add(!shape.path.is_empty(), &[Problem::NotFound]);
    add(has_parameter("limit"), &[Problem::InvalidLimit]);
    add(has_parameter("cursor"), &[Problem::InvalidCursor]);
    let body = [Problem::InvalidJson, Problem::RequestTimeout, Problem::PayloadTooLarge, Problem::UnsupportedMediaType];
    add(shape.body.is_some(), &body);
    add(route.is_idempotent, &[Problem::IdempotencyInProgress, Problem::IdempotencyKeyReused]);
    add(route.is_conditional, &[Problem::PreconditionFailed]);
    // A page of another origin, or one stream too many.
    add(route.is_stream, &[Problem::Forbidden, Problem::TooManyStreams]);
    add(in_parts, &[Problem::PreconditionFailed, Problem::RangeNotSatisfiable]);
    add(true, &route.refuses);
    Problem::ALL.iter().copied().filter(|problem| found.contains(problem)).collect()
}

/// Whether a row documents a problem that it answered with.
pub(in crate::api) fn is_documented(route: &Route, problem: Problem) -> bool {
    let shape = (route.shape)(&mut super::generator(), &app::Settings::default());
    of(route, &shape).contains(&problem)
}
