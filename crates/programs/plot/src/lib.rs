//! Pictures of measurements as SVG, with axes, legends and a style that suits light and dark backgrounds and print.
//!
//! A [`Canvas`] has a plot area between two axes. Elements are added to its `marks` at the coordinates that
//! [`Canvas::point`] returns, and [`Canvas::finish`] returns the file:
//!
//! ```
//! use longhaul_plot::canvas::{Around, Axis, Canvas, Key, Look};
//! use longhaul_plot::{path, style};
//!
//! let line = [(0.0, 1.0), (1.0, 4.0), (2.0, 2.0)];
//! let legend = vec![Key { look: Look::Line(0), name: "window".into() }];
//! let around = Around { id: "example".into(), title: "A window".into(), legend, ..Around::default() };
//! let y = Axis::between((0.0, 5.0), "window", "segments", 1.0);
//! let mut canvas = Canvas::new(around, Axis::between((0.0, 2.0), "time", "s", 0.0), y);
//! let through = path::through(line.iter().map(|(x, y)| canvas.point(*x, *y)));
//! canvas.marks.push(&style::line(0, &through));
//! assert!(canvas.finish().starts_with("<svg "));
//! ```
//!
//! [`stack`](stack::stack) puts several pictures with the same x axis into one file.
#![forbid(unsafe_code)]

pub mod canvas;
pub mod path;
pub mod scale;
pub mod stack;
pub mod style;
pub mod tag;
pub mod text;
pub mod ticks;

pub use canvas::Canvas;
