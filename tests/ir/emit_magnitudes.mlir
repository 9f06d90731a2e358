// RUN: qd-opt %s --pipeline --emit=asm --target=cuda | FileCheck %s --check-prefix=PTX
// RUN: qd-opt %s --pipeline --emit=source --target=metal | FileCheck %s --check-prefix=STRUCTURED

// NVIDIA's compilers take `abs` for at least 0, also that of the smallest integer, and leave out what `abs(x) < 0` guards.
// PTX-NOT: abs.s32
// PTX: neg.s32 {{[[:space:]]*}}[[NEGATED:%r[0-9]+]], [[X:%r[0-9]+]]
// PTX: min.u32 {{[[:space:]]*}}%{{.*}}, [[X]], [[NEGATED]]
// STRUCTURED: uint [[NEGATED:v[0-9]+]] = uint(0u - [[X:v[0-9]+]])
// STRUCTURED: = [[X]] < [[NEGATED]]
qd.kernel @k [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  %one = qd.constant 1 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32>
    %value = qd.load %place : !qd.ref<si32>
    %a = qd.unary abs %value : si32 -> si32
    %small = qd.binary lt %a, %zero : si32, si32 -> i1
    qd.if %small {
      qd.store %one, %place : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}
