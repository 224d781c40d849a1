//! Graphviz output of graphs.

use std::fmt::Write;

use hip_api::types::*;

use super::Graph;
use super::lower;
use super::node::Work;

/// Bits of the flags: everything, and the details of each kind of node.
const VERBOSE: u32 = 1;
const KERNELS: u32 = 1 << 2;
const COPIES: u32 = 1 << 3;
const FILLS: u32 = 1 << 4;
const HOSTS: u32 = 1 << 5;
const EVENTS: u32 = 1 << 6;
const HANDLES: u32 = 1 << 10;

/// The graph, its children as clusters.
pub fn text(graph: &Graph, flags: u32) -> String {
    let mut text = "digraph dot {\n".to_owned();
    cluster(graph, flags, &mut text);
    text.push_str("}\n");
    text
}

fn cluster(graph: &Graph, flags: u32, text: &mut String) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "subgraph cluster_{:x} {{\nlabel=\"graph_{:x}\" graph[style=\"dashed\"];",
        graph.id, graph.id
    );
    let mut children = Vec::new();
    for (number, node) in graph.nodes().into_iter().enumerate() {
        let described = graph.with(node, |it| {
            if let Work::Child(child) = &it.work {
                children.push(std::sync::Arc::clone(child));
            }
            (style(&it.work), label(&it.work, flags))
        });
        let Ok(((style, shape), label)) = described else { continue };
        let handle = if flags & (HANDLES | VERBOSE) != 0 { format!("\\n{node:#x}") } else { String::new() };
        let label = label.replace('"', "\\\"");
        let _ = writeln!(
            text,
            "\"node_{node:x}\"[style=\"{style}\" shape=\"{shape}\" label=\"{number}\\n{label}{handle}\"];"
        );
    }
    for (from, to) in graph.edges() {
        let _ = writeln!(text, "\"node_{from:x}\" -> \"node_{to:x}\";");
    }
    for child in children {
        cluster(&child, flags, text);
    }
    text.push_str("}\n");
}

fn style(work: &Work) -> (&'static str, &'static str) {
    match work {
        Work::Kernel(_) => ("bold", "octagon"),
        Work::Copy(_) => ("solid", "trapezium"),
        Work::Fill(_) => ("solid", "invtrapezium"),
        Work::Child(_) => ("solid", "rectangle"),
        Work::Empty => ("dashed", "rectangle"),
        _ => ("solid", "rectangle"),
    }
}

fn label(work: &Work, flags: u32) -> String {
    let tells = |what: u32| flags & (what | VERBOSE) != 0;
    match work {
        Work::Kernel(kernel) if tells(KERNELS) => {
            let (grid, [x, y, z]) = (kernel.blocks, kernel.launch.block);
            let (name, shared) = (&kernel.function.kernel.name, kernel.launch.shared_bytes);
            format!("{name}\\n<<<({},{},{}),({x},{y},{z}),{shared}>>>", grid.x, grid.y, grid.z)
        }
        Work::Kernel(kernel) => kernel.function.kernel.name.clone(),
        Work::Copy(copy) if tells(COPIES) => match lower::blocks(copy) {
            Ok((to, from)) => {
                let size = format!("{}x{}x{}", to.width, to.height, to.depth);
                format!("MEMCPY\\n{:#x} <- {:#x}\\n{size}\\n{}", to.address, from.address, way(copy.kind()))
            }
            Err(_) => "MEMCPY".to_owned(),
        },
        Work::Copy(copy) => format!("MEMCPY\\n({})", way(copy.kind())),
        Work::Fill(fill) => {
            let it = &fill.parameters;
            let bytes = it.width * it.height * fill.depth * it.elementSize as usize;
            match tells(FILLS) {
                true => format!(
                    "MEMSET\\n{:#x} pitch {} value {} element {} {}x{}",
                    it.dst as usize, it.pitch, it.value, it.elementSize, it.width, it.height
                ),
                false => format!("MEMSET\\n({},{bytes})", it.value),
            }
        }
        Work::Host(host) if tells(HOSTS) => {
            format!("HOST\\n{:#x}({:#x})", host.function as usize, host.data)
        }
        Work::Host(_) => "HOST".to_owned(),
        Work::Child(child) => format!("graph_{:x}", child.id),
        Work::Empty => "EMPTY".to_owned(),
        Work::WaitEvent(event) if tells(EVENTS) => format!("EVENT_WAIT\\n{:#x}", event.id),
        Work::WaitEvent(_) => "EVENT_WAIT".to_owned(),
        Work::RecordEvent(event) if tells(EVENTS) => format!("EVENT_RECORD\\n{:#x}", event.id),
        Work::RecordEvent(_) => "EVENT_RECORD".to_owned(),
        Work::Allocate(it) => format!("MEM_ALLOC\\n{:#x} {} bytes", it.memory.address, it.memory.bytes),
        Work::Free(memory) => format!("MEM_FREE\\n{:#x}", memory.address),
    }
}

fn way(kind: hipMemcpyKind) -> &'static str {
    match kind {
        hipMemcpyHostToHost => "HtoH",
        hipMemcpyHostToDevice => "HtoD",
        hipMemcpyDeviceToHost => "DtoH",
        hipMemcpyDeviceToDevice | hipMemcpyDeviceToDeviceNoCU => "DtoD",
        _ => "default",
    }
}
