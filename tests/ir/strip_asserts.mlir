// RUN: qd-opt %s --qd-strip-asserts | FileCheck %s
// RUN: qd-opt %s --pipeline | FileCheck %s
// RUN: qd-opt %s --pipeline --debug-checks | FileCheck %s --check-prefix=DEBUG

// Outside debug mode assertions are removed, with the values that only they use.
// CHECK-LABEL: qd.kernel @asserts
// CHECK-NOT: qd.assert
// CHECK: qd.print
// DEBUG-LABEL: qd.kernel @asserts
// DEBUG: qd.assert
// DEBUG: qd.print
qd.kernel @asserts [] attributes {argument_bytes = 4 : i32} {
  %x = qd.argument 0 : si32
  %zero = qd.constant 0 : si32
  %positive = qd.binary gt %x, %zero : si32, si32 -> i1
  qd.assert %positive, 1 ["x is ", [""]](%x : si32)
  qd.print ["end"]
}

// An assertion with kAlways stays in all modes.
// CHECK-LABEL: qd.kernel @always
// CHECK: qd.assert
// DEBUG-LABEL: qd.kernel @always
// DEBUG: qd.assert
qd.kernel @always [] attributes {argument_bytes = 4 : i32} {
  %x = qd.argument 0 : si32
  %zero = qd.constant 0 : si32
  %positive = qd.binary gt %x, %zero : si32, si32 -> i1
  qd.assert %positive, 1 ["x is ", [""]](%x : si32) {qd.always}
}
