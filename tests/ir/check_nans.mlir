// RUN: qd-opt %s --qd-check-nans | FileCheck %s

// An operation that makes a NaN of numbers is reported; one with a NaN operand is not. Integers are not checked.
// CHECK-LABEL: qd.kernel @quotient
// CHECK: %[[RESULT:.*]] = qd.binary div %[[A:.*]], %[[B:.*]] : f32, f32 -> f32
// CHECK: %[[IS_NAN:.*]] = qd.unary isnan %[[RESULT]]
// CHECK: %[[IS_GOOD:.*]] = qd.unary logical_not %[[IS_NAN]]
// CHECK: %[[LEFT:.*]] = qd.unary isnan %[[A]]
// CHECK: %[[OR_LEFT:.*]] = qd.binary bit_or %[[IS_GOOD]], %[[LEFT]]
// CHECK: %[[RIGHT:.*]] = qd.unary isnan %[[B]]
// CHECK: %[[OR_RIGHT:.*]] = qd.binary bit_or %[[OR_LEFT]], %[[RIGHT]]
// CHECK: qd.assert %[[OR_RIGHT]], 1 ["NaN from ", [""], " / ", [""]](%[[A]], %[[B]] : f32, f32)
// CHECK: qd.binary add
// CHECK-NOT: qd.assert
qd.kernel @quotient [] attributes {argument_bytes = 12 : i32} {
  %a = qd.argument 0 : f32
  %b = qd.argument 4 : f32
  %c = qd.argument 8 : si32
  %quotient = qd.binary div %a, %b : f32, f32 -> f32
  %sum = qd.binary add %c, %c : si32, si32 -> si32
  qd.print ["end"]
}
