//! What a trace consists of.

/// The type space of the generic events, whose meaning is in their names.
pub const GENERIC_SPACE: (&str, i32) = ("com.ibm.tuningfork.generic", 1);

/// A property of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// An attribute of an event type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub description: String,
}

/// A type of events: what their attributes are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventType {
    /// Its number in this trace.
    pub id: i32,
    /// Its name, which tells what generic events mean.
    pub name: String,
    /// What it is, for people.
    pub description: String,
    /// The int32 attributes.
    pub ints: Vec<Attribute>,
    /// The int64 attributes.
    pub longs: Vec<Attribute>,
    /// The double attributes.
    pub doubles: Vec<Attribute>,
    /// The string attributes.
    pub strings: Vec<Attribute>,
}

fn attribute(name: &str, description: &str) -> Attribute {
    Attribute { name: name.into(), description: description.into() }
}

impl EventType {
    /// The beginning of intervals called `name`.
    pub fn interval_start(id: i32, name: &str) -> EventType {
        let description = format!("{name} begins");
        EventType { id, name: format!("Interval Start: {name}"), description, ..EventType::default() }
    }

    /// The end of intervals called `name`.
    pub fn interval_stop(id: i32, name: &str) -> EventType {
        let description = format!("{name} ends");
        EventType { id, name: format!("Interval Stop: {name}"), description, ..EventType::default() }
    }

    /// Values of the curve called `name`: one double.
    pub fn point(id: i32, name: &str) -> EventType {
        EventType {
            id,
            name: format!("Point: {name}"),
            description: format!("a value of {name}"),
            doubles: vec![attribute("value", "the value")],
            ..EventType::default()
        }
    }

    /// Bookmarks of the kind `name`: one string.
    pub fn bookmark(id: i32, name: &str) -> EventType {
        EventType {
            id,
            name: format!("Bookmark: {name}"),
            description: format!("a bookmark of {name}"),
            strings: vec![attribute("text", "what it says")],
            ..EventType::default()
        }
    }

    /// Whether an event with these attributes can be of this type.
    pub fn fits(&self, a: &Attributes) -> bool {
        (self.ints.len(), self.longs.len(), self.doubles.len(), self.strings.len())
            == (a.ints.len(), a.longs.len(), a.doubles.len(), a.strings.len())
    }
}

/// The attributes of an event, in the order of its type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    /// int32.
    pub ints: Vec<i32>,
    /// int64.
    pub longs: Vec<i64>,
    /// Double.
    pub doubles: Vec<f64>,
    /// Strings.
    pub strings: Vec<String>,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Whose it is.
    pub feedlet: i32,
    /// Number of its chunk among those of the feedlet.
    pub sequence: i32,
    /// When, in ticks of the trace's clock (the property `Tick Frequency` tells how many a second has).
    pub time: i64,
    /// Number of its type.
    pub type_id: i32,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A change of the list of feedlets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedletChange {
    /// A feedlet begins.
    Add {
        /// Its index.
        index: i32,
    },
    /// A feedlet ends.
    Remove {
        /// Its index.
        index: i32,
    },
    /// Something is said of a feedlet.
    Describe {
        /// Its index.
        index: i32,
        /// `name`, `description` or `tid`.
        key: String,
        /// The value.
        value: String,
    },
}

/// What a reader gives, in the order of the trace.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// A property.
    Property(Property),
    /// A change of the list of feedlets.
    Feedlet(FeedletChange),
    /// The space that event types belong to from here on.
    Space {
        /// Its name.
        name: String,
        /// Its version.
        version: i32,
    },
    /// An event type.
    EventType(EventType),
    /// An event.
    Event(Event),
    /// An entry of the string table.
    String {
        /// Its index.
        index: i32,
        /// The string.
        text: String,
    },
    /// A chunk of a type that this reader does not know was passed over.
    Unknown {
        /// The type.
        chunk: i32,
        /// Bytes of its body.
        bytes: usize,
    },
}
