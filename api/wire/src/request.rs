//! Requests: one handler per operation that a client sends, and the dispatch that decodes a request and calls its handler.
//!
//! [`Requests`] is derived from the operation table. It requires a handler for every Call and Post, so a row without a handler
//! does not compile. Nothing here reads a connection: the receiver supplies the payload, and the handler of an operation with a
//! body reads the body itself, straight to its destination.

use crate::operation::*;
use crate::{Header, WireError};

/// The payload of the request that is being received.
pub trait Payload {
    /// Reason why the payload is not available.
    type Error: From<WireError>;

    /// Number of bytes that have not been taken yet.
    fn remaining(&self) -> u64;

    /// Takes the next `bytes` bytes, which are no more than remain.
    fn fields(&mut self, bytes: usize) -> Result<&[u8], Self::Error>;

    /// Takes all remaining bytes.
    fn whole(&mut self) -> Result<&[u8], Self::Error>;
}

/// What receives requests, apart from the handlers of the operations.
pub trait Receiver {
    /// Reason why a request fails. A malformed request fails with a [`WireError`].
    type Error: From<WireError>;
    /// Payload of a request, from which the handler of an operation with a body reads the body.
    type Payload<'a>: Payload<Error = Self::Error>;
    /// What a handler returns: the reply, or how it comes about.
    type Answer<O: Operation>;
    /// Result of a request, for the thread that reads the connection.
    type Outcome;

    /// Completes a request after its handler: takes what is left of the payload and sends, or arranges, the reply.
    fn complete<O: Operation>(
        &mut self,
        header: &Header,
        payload: Self::Payload<'_>,
        answer: Result<Self::Answer<O>, Self::Error>,
    ) -> Self::Outcome;

    /// Refuses a known operation that no client may request.
    fn refuse(&mut self, opcode: Opcode, header: &Header, payload: Self::Payload<'_>) -> Self::Outcome;
}

/// Handler of an operation without a body.
pub trait Handle<O: Operation>: Receiver {
    /// Executes the request.
    fn handle(&mut self, header: &Header, request: O) -> Result<Self::Answer<O>, Self::Error>;
}

/// Handler of an operation with a body.
pub trait HandleBody<O: Operation>: Receiver {
    /// Executes the request, whose body is what remains of the payload. A handler may leave bytes unread.
    fn handle(
        &mut self,
        header: &Header,
        request: O,
        body: &mut Self::Payload<'_>,
    ) -> Result<Self::Answer<O>, Self::Error>;
}

/// Sorts the rows of the operation table into requests without a body, requests with a body and operations that are no requests.
macro_rules! derive_requests {
    ([$($plain:ident)*] [$($bodied:ident)*] [$($other:ident)*]) => {
        /// A receiver with a handler for every Call and Post of the operation table.
        pub trait Requests: $(Handle<$plain> +)* $(HandleBody<$bodied> +)* {}

        impl<T: $(Handle<$plain> +)* $(HandleBody<$bodied> +)*> Requests for T {}

        /// Decodes a request and calls its handler.
        pub fn dispatch<R: Requests>(
            receiver: &mut R,
            opcode: Opcode,
            header: &Header,
            payload: R::Payload<'_>,
        ) -> R::Outcome {
            match opcode {
                $(Opcode::$plain => plain::<$plain, R>(receiver, header, payload),)*
                $(Opcode::$bodied => bodied::<$bodied, R>(receiver, header, payload),)*
                $(Opcode::$other)|* => receiver.refuse(opcode, header, payload),
            }
        }
    };
    ([$($plain:ident)*] [$($bodied:ident)*] [$($other:ident)*]
        $(#[$meta:meta])* $number:literal Call $name:ident { $($field:tt)* } => { $($reply:tt)* } $(+ $out:ident)?; $($rest:tt)*
    ) => {
        derive_requests! { [$($plain)* $name] [$($bodied)*] [$($other)*] $($rest)* }
    };
    ([$($plain:ident)*] [$($bodied:ident)*] [$($other:ident)*]
        $(#[$meta:meta])* $number:literal Post $name:ident { $($field:tt)* } => { $($reply:tt)* } $(+ $out:ident)?; $($rest:tt)*
    ) => {
        derive_requests! { [$($plain)* $name] [$($bodied)*] [$($other)*] $($rest)* }
    };
    ([$($plain:ident)*] [$($bodied:ident)*] [$($other:ident)*]
        $(#[$meta:meta])* $number:literal Post $name:ident { $($field:tt)* } + body => { $($reply:tt)* } $(+ $out:ident)?;
        $($rest:tt)*
    ) => {
        derive_requests! { [$($plain)*] [$($bodied)* $name] [$($other)*] $($rest)* }
    };
    ([$($plain:ident)*] [$($bodied:ident)*] [$($other:ident)*]
        $(#[$meta:meta])* $number:literal Call $name:ident { $($field:tt)* } + body => { $($reply:tt)* } $(+ $out:ident)?;
        $($rest:tt)*
    ) => {
        derive_requests! { [$($plain)*] [$($bodied)* $name] [$($other)*] $($rest)* }
    };
    ([$($plain:ident)*] [$($bodied:ident)*] [$($other:ident)*]
        $(#[$meta:meta])* $number:literal $kind:ident $name:ident { $($field:tt)* } $(+ $in:ident)?
            => { $($reply:tt)* } $(+ $out:ident)?;
        $($rest:tt)*
    ) => {
        derive_requests! { [$($plain)*] [$($bodied)*] [$($other)* $name] $($rest)* }
    };
    ($($rows:tt)*) => {
        derive_requests! { [] [] [] $($rows)* }
    };
}

crate::for_each_operation!(derive_requests);

fn plain<O: Operation, R: Handle<O>>(
    receiver: &mut R,
    header: &Header,
    mut payload: R::Payload<'_>,
) -> R::Outcome {
    let decoded = payload.whole().and_then(|bytes| Ok(decode_request::<O>(bytes)?.0));
    let answer = decoded.and_then(|request| receiver.handle(header, request));
    receiver.complete(header, payload, answer)
}

fn bodied<O: Operation, R: HandleBody<O>>(
    receiver: &mut R,
    header: &Header,
    mut payload: R::Payload<'_>,
) -> R::Outcome {
    let decoded = decode_head::<O, _>(&mut payload);
    let answer = decoded.and_then(|request| receiver.handle(header, request, &mut payload));
    receiver.complete(header, payload, answer)
}

/// Decodes the fields of an operation with a body, and leaves the body in the payload.
fn decode_head<O: Operation, P: Payload>(payload: &mut P) -> Result<O, P::Error> {
    let head = const { O::HEAD_BYTES.expect("operations with a body have fields of constant size") };
    if payload.remaining() < head as u64 {
        let (needed, found) = (head as u64, payload.remaining());
        return Err(WireError::Truncated { what: O::OPCODE.name(), needed, found }.into());
    }
    Ok(decode_request::<O>(payload.fields(head)?)?.0)
}
