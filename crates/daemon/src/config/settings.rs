//! The settings that applications have read from their sections, by type. Only the application that
//! stored a value can take it out.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// One value of each type.
#[derive(Clone, Debug, Default)]
pub struct Settings(Vec<Arc<dyn Value>>);

impl Settings {
    /// Stores an application's settings.
    pub fn put<T: Any + Debug + PartialEq + Send + Sync>(&mut self, settings: T) {
        self.0.push(Arc::new(settings));
    }

    /// An application's settings; `None` where it has read none.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.iter().find_map(|settings| settings.any().downcast_ref())
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<dyn Value>, &Arc<dyn Value>)| one.equals(other.any());
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

trait Value: Debug + Send + Sync {
    fn any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: Any + Debug + PartialEq + Send + Sync> Value for T {
    fn any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_place() {
        let mut one = Settings::default();
        one.put(7_u8);
        let other = one.clone();
        one.put("seven".to_string());
        assert_eq!(
            (one.get::<u8>(), one.get::<String>().map(String::as_str)),
            (Some(&7), Some("seven"))
        );
        assert_eq!(one.get::<u16>(), None);
        assert_ne!(one, other);
    }
}
