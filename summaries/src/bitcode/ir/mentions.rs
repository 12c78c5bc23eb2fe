//! The global values that a body, an initializer or a personality refers to, through constants of any depth.
//!
//! The operands of global values themselves are not searched. Each search costs what it reaches. Metadata refers to
//! nothing that code needs.

use super::constants::Constants;
use super::function::Body;
use super::ir_module::IrModule;
use super::record::ValueId;

/// Searches for global values, with memory that is reused by each search.
#[derive(Debug)]
pub struct MentionSearch<'m> {
    module: &'m IrModule,
    /// By value of the module: the number of the last search that reached it.
    seen: Vec<u32>,
    question: u32,
}

impl<'m> MentionSearch<'m> {
    pub fn new(module: &'m IrModule) -> Self {
        MentionSearch { module, seen: vec![0; module.values() as usize], question: 0 }
    }

    /// The global values that these values of the module reach, sorted. Unknown numbers are ignored.
    pub fn of_values(&mut self, values: impl IntoIterator<Item = ValueId>) -> Vec<ValueId> {
        self.reached(values, None)
    }

    /// The global values that a body refers to, sorted; its own function only if it refers to itself.
    pub fn of_body(&mut self, body: &Body) -> Vec<ValueId> {
        let mut values = Vec::new();
        for instruction in &body.instructions {
            instruction.kind.each_operand(|id| {
                // Constants of the body are all walked below.
                if id < body.first_parameter {
                    values.push(id);
                }
            });
        }
        self.reached(values, Some(&body.constants))
    }

    fn reached(
        &mut self,
        values: impl IntoIterator<Item = ValueId>,
        constants: Option<&Constants>,
    ) -> Vec<ValueId> {
        self.question = self.question.wrapping_add(1);
        if self.question == 0 {
            self.seen.fill(0);
            self.question = 1;
        }
        let mut open: Vec<ValueId> = Vec::new();
        let mut found = Vec::new();
        values.into_iter().for_each(|id| self.see(id, &mut open));
        for constant in constants.iter().flat_map(|c| &c.all) {
            constant.each_operand(|id| self.see(id, &mut open));
        }
        while let Some(id) = open.pop() {
            match self.module.constant(id) {
                Some(constant) => constant.each_operand(|id| self.see(id, &mut open)),
                None => found.push(id),
            }
        }
        found.sort_unstable();
        found
    }

    fn see(&mut self, id: ValueId, open: &mut Vec<ValueId>) {
        let question = self.question;
        if let Some(seen) = self.seen.get_mut(id.0 as usize)
            && *seen != question
        {
            *seen = question;
            open.push(id);
        }
    }
}
