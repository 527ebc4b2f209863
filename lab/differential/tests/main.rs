//! The tests of the differential store. What they share with those of the plugin is in its folder
//! `integration`.

mod audits;
mod differential;
mod faults;
#[path = "../../../integration/support"]
mod support {
    pub(crate) mod crash_image;
    pub(crate) mod damage;
    #[expect(dead_code, reason = "the tests of the plugin need all of it")]
    pub(crate) mod database_files;
    pub(crate) mod environment;
    #[expect(dead_code, reason = "the tests of the plugin need all of it")]
    pub(crate) mod history;
    #[expect(dead_code, reason = "the tests of the plugin need all of it")]
    pub(crate) mod model_db;
    #[expect(dead_code, reason = "the tests of the plugin need all of it")]
    pub(crate) mod reads;
    pub(crate) mod requirements;
}
