// RUN: qd-opt %s --qd-check-arithmetic="reports=true" --split-input-file | FileCheck %s
// RUN: qd-opt %s --qd-check-arithmetic="overflow=false" --split-input-file | FileCheck %s --check-prefix=IGNORED

// A sum that may overflow is reported, and the kernel continues.
// CHECK-LABEL: qd.kernel @sum
// CHECK: %[[BAD:.*]] = qd.overflows add %[[A:.*]], %[[A]] : si32, si32 -> i1
// CHECK: %[[GOOD:.*]] = qd.unary logical_not %[[BAD]]
// CHECK: qd.assert %[[GOOD]], 3 ["Addition overflow detected in {{.*}}: ", [""], " + ", [""], " does not fit i32\0A"](%[[A]], %[[A]] : si32, si32) {reports}
// CHECK: qd.binary add
// IGNORED-LABEL: qd.kernel @sum
// IGNORED-NOT: qd.assert
qd.kernel @sum [] attributes {argument_bytes = 4 : i32} {
  %i = qd.argument 0 : si32
  %sum = qd.binary add %i, %i : si32, si32 -> si32
  qd.print ["end"]
}

// -----

// The sum of the components is checked one by one, the product of matrices for all components of the result at once.
// CHECK-LABEL: qd.kernel @compounds
// CHECK: %[[FIRST:.*]] = qd.extract %[[V:.*]] 0
// CHECK: %[[SECOND:.*]] = qd.extract %[[V]] 1
// CHECK: qd.overflows add %[[FIRST]], %[[SECOND]]
// CHECK: qd.binary add %[[FIRST]], %[[SECOND]]
// CHECK-NOT: qd.reduce add
// CHECK: qd.overflows mul %{{.*}} : vector<2x1xsi32>, vector<2x1xsi32>
// CHECK: qd.overflows mul
// CHECK: qd.overflows add %{{.*}} : vector<2x1xsi32>, vector<2x1xsi32>
// CHECK-NOT: qd.matmul
// IGNORED-LABEL: qd.kernel @compounds
// IGNORED: qd.reduce add
// IGNORED: qd.matmul
qd.kernel @compounds [] attributes {argument_bytes = 4 : i32} {
  %i = qd.argument 0 : si32
  %v = qd.vector %i, %i : si32, si32 -> vector<2xsi32>
  %sum = qd.reduce add %v : vector<2xsi32> -> si32
  %m = qd.vector %i, %i, %i, %i : si32, si32, si32, si32 -> vector<2x2xsi32>
  %column = qd.vector %i, %i : si32, si32 -> vector<2x1xsi32>
  %product = qd.matmul %m, %column : vector<2x2xsi32>, vector<2x1xsi32> -> vector<2x1xsi32>
  qd.print ["end"]
}

// -----

// Divisors and shift counts are checked even if overflow is not.
// IGNORED-LABEL: qd.kernel @divisors_and_counts
// IGNORED: %[[NONZERO:.*]] = qd.binary ne
// IGNORED: qd.assert %[[NONZERO]], 4 ["Modulo by zero: "
// IGNORED: qd.binary mod
// IGNORED: %[[COUNT:.*]] = qd.cast %{{.*}} : si32 -> ui32
// IGNORED: %[[BITS:.*]] = qd.constant 32 : ui32
// IGNORED: %[[BELOW:.*]] = qd.binary lt %[[COUNT]], %[[BITS]]
// IGNORED: qd.assert %[[BELOW]], 3 ["Shift count out of range for 32 bits: "
// IGNORED: qd.binary shr
qd.kernel @divisors_and_counts [] attributes {argument_bytes = 4 : i32} {
  %i = qd.argument 0 : si32
  %rest = qd.binary mod %i, %i : si32, si32 -> si32
  %shifted = qd.binary shr %i, %i : si32, si32 -> si32
  qd.print ["end"]
}

// -----

// A converted float must truncate to a number of the range. f32 cannot represent the number below the lower bound, so the bound is good.
// IGNORED-LABEL: qd.kernel @conversion
// IGNORED: qd.constant -2.14748365E+9 : f32
// IGNORED: qd.binary ge
// IGNORED: qd.constant 2.14748365E+9 : f32
// IGNORED: qd.binary lt
// IGNORED: qd.assert %{{.*}}, 3 ["Conversion out of range of i32: ", [""]]
qd.kernel @conversion [] attributes {argument_bytes = 4 : i32} {
  %x = qd.argument 0 : f32
  %whole = qd.cast %x : f32 -> si32
  qd.print ["end"]
}

// -----

// The bounds of a loop keep its index plus or minus one within the type: no check.
// CHECK-LABEL: qd.kernel @neighbors
// CHECK: qd.for
// CHECK-NOT: qd.overflows
// CHECK: qd.print ["near"]
// CHECK: qd.overflows add
// CHECK: qd.print ["far"]
// IGNORED-LABEL: qd.kernel @neighbors
qd.kernel @neighbors [] attributes {argument_bytes = 16 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<f32, [?], [], 4>
  %one = qd.constant 1 : si32
  %two = qd.constant 2 : si32
  %size = qd.extent %x 0 : !qd.tensor<f32, [?], [], 4> -> si32
  qd.for (%one) to (%size) : (si32) to (si32) {
  ^body(%i: si32):
    %left = qd.binary sub %i, %two : si32, si32 -> si32
    %right = qd.binary add %i, %one : si32, si32 -> si32
    qd.print ["near"]
    %beyond = qd.binary add %i, %two : si32, si32 -> si32
    qd.print ["far"]
    qd.yield
  }
}
