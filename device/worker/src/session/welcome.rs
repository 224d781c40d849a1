//! The Welcome of a session: its capabilities, its devices, and whether its client may access its memory directly.

use std::sync::atomic::Ordering;

use transport::{Link, Transport};
use wire::{Welcome, capability};

use crate::session::shared::{Attachment, Shared};

impl Shared {
    /// Returns the link that carries the connection after Welcome: shared memory if the client is on this machine and asks for it,
    /// else the socket.
    pub(super) fn carrier(&self, attachment: &Attachment) -> Link {
        let socket = &attachment.link;
        // A pair of sockets without a name leads to another process of this worker, which decrypts.
        let may_share =
            attachment.hello.capabilities & capability::MEMORY_LINK != 0 && socket.unix_peer().is_some();
        if may_share {
            match socket.share_memory() {
                Ok(link) => return link,
                Err(error) => {
                    tracing::warn!("no shared memory for a connection, the socket is used: {error}")
                }
            }
        }
        socket.clone()
    }

    /// Builds the Welcome of a connection over `link`.
    pub(super) fn welcome(&self, attachment: &Attachment, link: &Link, received: u64) -> Welcome {
        let mut capabilities = capability::PACKED
            | capability::STRANDS
            | capability::SPANS
            | capability::HEARTBEAT
            | capability::REPLAY;
        if link.transport() == Transport::SharedMemory {
            capabilities |= capability::MEMORY_LINK;
        }
        if self.device.capabilities().placed_modules {
            capabilities |= capability::PLACED_MODULES;
        }
        if self.facts.shares_memory {
            capabilities |= capability::SHARED_MEMORY;
        }
        if self.facts.limits_host {
            capabilities |= capability::HOST_LIMIT;
        }
        if self.facts.has_compiler {
            capabilities |= capability::COMPILE;
        }
        if self.facts.resumed {
            capabilities |= capability::RESUMED;
        }
        if self.outgoing.outbox.is_restored() {
            capabilities |= capability::RESTORED;
        }
        let mut known = Vec::new();
        if let Some(store) = &self.store {
            capabilities |= capability::UPLOADS;
            // Only for new sessions: a client that reconnects has this list already, plus what it uploaded since.
            if attachment.hello.session_id == 0 && attachment.hello.capabilities & capability::UPLOADS != 0 {
                known.extend_from_slice(store.advertised());
            }
        }
        let arena = self.device.arena();
        let devices = self.device.info().iter().zip(0..).map(|(info, ordinal)| wire::DeviceSnapshot {
            ordinal,
            isa: info.isa.clone(),
            properties: wire::Bytes(info.properties_bytes().to_vec()),
            attributes: info.attributes.clone(),
            limits: info.limits.clone(),
            total_memory: info.total_memory,
            quota: info.quota,
            least_priority: info.least_priority,
            greatest_priority: info.greatest_priority,
            driver_version: info.driver_version,
            runtime_version: info.runtime_version,
        });
        Welcome {
            version: attachment.version,
            capabilities,
            session_id: self.facts.session_id,
            session_secret: self.facts.secret,
            received,
            arena_base: arena.base,
            arena_bytes: arena.bytes,
            grace_ms: u32::try_from(self.facts.grace_lost.as_millis()).unwrap_or(u32::MAX),
            worker: self.facts.worker.clone(),
            devices: devices.collect(),
            known: wire::Bytes(known),
            neighbour: self.neighbour(attachment),
        }
    }

    /// Process id of this executor if the client runs as the same user on this machine, otherwise 0. Uses the kernel's peer
    /// credentials. Such a client may copy between its memory and device memory itself (process_vm_readv and process_vm_writev).
    fn neighbour(&self, attachment: &Attachment) -> u32 {
        let ends = attachment.hello.capabilities & capability::DIRECT_COPIES_END != 0;
        self.connection.ends_direct_copies.store(ends, Ordering::SeqCst);
        match attachment.link.unix_peer() {
            Some(peer)
                if self.facts.is_reachable
                    // A client that keeps a journal copies nothing around it.
                    && attachment.hello.capabilities & capability::REPLAY == 0
                    // Older clients use it only when a session starts.
                    && (attachment.hello.session_id == 0 || ends)
                    && peer.uid == self.facts.owner
                    && peer.pid == attachment.hello.pid =>
            {
                // Yama may restrict ptrace access to ancestors: this grants it to the client. Without Yama the call fails, which
                // is harmless.
                // SAFETY: passes integers and touches no memory.
                unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(peer.pid)) };
                // SAFETY: returns a number and cannot fail.
                if unsafe { libc::geteuid() } == self.facts.owner {
                    // The client's user has all rights to this process already, and confined processes are blocked by their own
                    // filters. An executor that runs as a dedicated user stays non-dumpable: root has the privilege to access it
                    // anyway, or copies over the socket.
                    // SAFETY: passes integers and touches no memory.
                    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
                }
                self.connection.is_reached_into.store(true, Ordering::SeqCst);
                std::process::id()
            }
            _ => 0,
        }
    }
}
