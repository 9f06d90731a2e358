// RUN: qd-opt %s --pipeline --emit=llvm --target=x64 --lanes=1 --line-tables | FileCheck %s
// RUN: qd-opt %s --pipeline --emit=llvm --target=x64 --lanes=1 | FileCheck %s --check-prefix=NONE

// Source locations are those of the user's functions, in the order of the calls, within an LLVM function for the task.
// CHECK-LABEL: define internal void @qd_task_0_loop
// CHECK: add i32 {{.*}}, !dbg [[SUM:![0-9]+]]
// CHECK: store i32 {{.*}}, !dbg [[STORE:![0-9]+]]
// CHECK: emissionKind: LineTablesOnly
// CHECK: [[TASK:![0-9]+]] = distinct !DISubprogram(name: "qd_task_0_loop"
// CHECK: [[OUTER:![0-9]+]] = !DILocation(line: 0, scope: [[TASK]])
// CHECK: [[STORE]] = distinct !DILocation(line: 8, column: 10, scope: [[STEP:![0-9]+]], inlinedAt: [[OUTER]])
// CHECK: [[STEP]] = distinct !DISubprogram(name: "step", scope: null, file: [[FILE:![0-9]+]]
// CHECK: [[FILE]] = !DIFile(filename: "step.py", directory: "/home")
// CHECK: [[SUM]] = distinct !DILocation(line: 3, column: 13, scope: [[TWICE:![0-9]+]], inlinedAt: [[CALL:![0-9]+]])
// CHECK: [[TWICE]] = distinct !DISubprogram(name: "twice", scope: null, file: [[FILE]]
// CHECK: [[CALL]] = distinct !DILocation(line: 8, column: 17, scope: [[STEP]], inlinedAt: [[OUTER]])
// NONE-NOT: !dbg
qd.func @twice(%x: si32) -> si32 {
  %sum = qd.binary add %x, %x : si32, si32 -> si32 loc("twice"("/home/step.py":3:12))
  qd.return %sum : si32 loc("twice"("/home/step.py":3:5))
}
qd.kernel @step [] attributes {argument_bytes = 8 : i32} {
  %x = qd.tensor_argument field "x" at 0 position 0 : !qd.tensor<si32, [64], [4], 4>
  %zero = qd.constant 0 : si32
  %end = qd.constant 64 : si32
  qd.for parallel (%zero) to (%end) : (si32) to (si32) {
  ^body(%i: si32):
    %place = qd.element %x[%i] : !qd.tensor<si32, [64], [4], 4>, si32 -> !qd.ref<si32> loc("step"("/home/step.py":8:9))
    %old = qd.load %place : !qd.ref<si32> loc("step"("/home/step.py":8:22))
    %new = qd.call @twice(%old) : (si32) -> si32 loc("step"("/home/step.py":8:16))
    qd.store %new, %place : !qd.ref<si32> loc("step"("/home/step.py":8:9))
    qd.yield
  }
}
