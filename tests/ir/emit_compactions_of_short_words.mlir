// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --cpu=icelake-server | FileCheck %s
// RUN: qd-opt %s --qd-split-tasks --emit=llvm --target=x64 --cpu=x86-64-v4 | FileCheck %s --check-prefix=FEW

// Where an instruction packs words of two bytes, a vector of them has twice the lanes, unless the loop computes with longer ones.
// CHECK: call <32 x i16> @llvm.experimental.vector.compress.v32i16
// CHECK: call <16 x i16> @llvm.experimental.vector.compress.v16i16
// FEW: call <16 x i16> @llvm.experimental.vector.compress.v16i16
// FEW-NOT: <32 x i16>
qd.kernel @keep_short_words [] attributes {argument_bytes = 40 : i32} {
  %x = qd.tensor_argument "x" at 0 position 0 : !qd.tensor<ui16, [?], [], 2>
  %y = qd.tensor_argument "y" at 16 position 1 : !qd.tensor<ui16, [?], [], 2>
  %n = qd.argument 32 : si32
  %zero = qd.constant 0 : si32
  %one = qd.constant 1 : si32
  %limit = qd.constant 7 : ui16
  %count = qd.local : !qd.ref<si32>
  qd.store %zero, %count : !qd.ref<si32>
  qd.for (%zero) to (%n) : (si32) to (si32) attributes {qd.lanes} {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<ui16, [?], [], 2>, si32 -> !qd.ref<ui16>
    %value = qd.load %from : !qd.ref<ui16>
    %is_less = qd.binary lt %value, %limit : ui16, ui16 -> i1
    qd.if %is_less {
      %place = qd.load %count : !qd.ref<si32>
      %to = qd.element %y[%place] : !qd.tensor<ui16, [?], [], 2>, si32 -> !qd.ref<ui16>
      qd.store %value, %to {qd.compacts} : !qd.ref<ui16>
      %before = qd.load %count : !qd.ref<si32>
      %after = qd.binary add %before, %one : si32, si32 -> si32
      qd.store %after, %count {qd.compacts} : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
  qd.for (%zero) to (%n) : (si32) to (si32) attributes {qd.lanes} {
  ^body(%i: si32):
    %from = qd.element %x[%i] : !qd.tensor<ui16, [?], [], 2>, si32 -> !qd.ref<ui16>
    %value = qd.load %from : !qd.ref<ui16>
    %long = qd.cast %value : ui16 -> si32
    %is_less = qd.binary lt %long, %one : si32, si32 -> i1
    qd.if %is_less {
      %place = qd.load %count : !qd.ref<si32>
      %to = qd.element %y[%place] : !qd.tensor<ui16, [?], [], 2>, si32 -> !qd.ref<ui16>
      qd.store %value, %to {qd.compacts} : !qd.ref<ui16>
      %before = qd.load %count : !qd.ref<si32>
      %after = qd.binary add %before, %one : si32, si32 -> si32
      qd.store %after, %count {qd.compacts} : !qd.ref<si32>
      qd.yield
    }
    qd.yield
  }
}
