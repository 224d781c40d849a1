//! The tables of objects behind handles. Graphs have their own, see [`GraphTables`](crate::graph::tables::GraphTables).

use super::handles::{Kind, Table};
use super::module::{Function, Module};
use super::objects::{Context, Event, Library, Pool};
use super::stream::Stream;
use super::texture::Textures;
use super::virtual_memory::Physical;

/// Objects by handle.
#[derive(Debug)]
pub struct Tables {
    pub streams: Table<Stream>,
    pub events: Table<Event>,
    pub modules: Table<Module>,
    pub functions: Table<Function>,
    pub pools: Table<Pool>,
    pub physical: Table<Physical>,
    pub libraries: Table<Library>,
    pub contexts: Table<Context>,
    pub textures: Textures,
}

impl Tables {
    /// Empty tables.
    pub fn new() -> Tables {
        Tables {
            streams: Table::new(Kind::Stream),
            events: Table::new(Kind::Event),
            modules: Table::new(Kind::Module),
            functions: Table::new(Kind::Function),
            pools: Table::new(Kind::MemoryPool),
            physical: Table::new(Kind::PhysicalMemory),
            libraries: Table::new(Kind::Library),
            contexts: Table::new(Kind::Context),
            textures: Textures::default(),
        }
    }
}
