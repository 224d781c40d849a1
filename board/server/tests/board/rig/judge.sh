# Fake judge for tests of the server: the submitted source controls the events it emits.
read -r job
say() { printf '%s\n' "$1"; }
say '{"status":"COMPILING","message":"Compiling HIP kernel with clang..."}'
case "$job" in
    *//die*) echo "no toolchain" >&2; exit 3 ;;
    *//hang*) sleep 1000 & wait ;;
    *//hold*)
        gate=${job#*//hold=}; gate=${gate%%//*}
        while [ ! -e "$gate" ]; do sleep 0.02; done ;;
esac
case "$job" in
    *//error*) say '{"status":"COMPILE_ERROR","message":"It does not compile","details":"line 1: no"}'; exit ;;
    *//junk*) say 'this is no event'; say '{"status":"bad name\n"}'; say '[1,2]' ;;
    *//chatter*) head -c 1000000 /dev/zero | tr '\0' '!' >&2 ;;
esac
say '{"status":"COMPILED","compile_ms":12.5,"kernels":[{"name":"solution","vgprs":8}],"warnings":""}'
say '{"status":"ISA","kernels":[{"kernel":"solution","lines":[{"address":0,"text":"s_endpgm"}]}]}'
case "$job" in *'"endpoint":"compile"'*) exit ;; esac
say '{"request":"device"}'
read -r device
case "$job" in
    *//ondevice*)
        gate=${job#*//ondevice=}; gate=${gate%%//*}
        while [ ! -e "$gate" ]; do sleep 0.02; done ;;
esac
case "$job" in
    *'"endpoint":"custom"'*)
        seed=${job#*\"custom\":*\"seed\":}; seed=${seed%%[!0-9]*}
        say '{"status":"PASSED","input":{"seed":'"$seed"'},"output":{},"expected_output":{},"debug_info":null,"stdout":"","stderr":""}'
        exit ;;
    *'"endpoint":"check"'*)
        say '{"status":"FINDINGS","report":{"findings":[{"kind":"local-race","line":7,"other_line":null,"kernel":"solution","message":"race","details":[],"count":2}],"more":0,"cases":["n=1"],"stopped":"","unchecked":0,"launches":1}}'
        exit ;;
    *'"endpoint":"profile"'*)
        say '{"status":"PROFILED","profile":{"case":"n=1","gpu":"MI300X","correct":true,"kernels":[]}}'
        exit ;;
esac
say '{"status":"CHECKING","message":"Checking","total_tests":2}'
say '{"status":"TEST_RESULT","result":{"test_id":1,"name":"n=1","status":"PASSED","runtime_ms":0.5,"max_difference":0.0},"total_tests":2}'
case "$job" in
    *//wrong*)
        say '{"status":"WRONG_ANSWER","debug_info":{"case":"n=2","max_difference":1.5},"passed_tests":1,"total_tests":2,"test_results":[]}'
        exit ;;
esac
say '{"status":"TEST_RESULT","result":{"test_id":2,"name":"n=2","status":"PASSED","runtime_ms":0.5,"max_difference":0.0},"total_tests":2}'
say '{"status":"CHECKED","passed_tests":2,"total_tests":2,"test_results":[]}'
case "$job" in *'"endpoint":"checker"'*) exit ;; esac
ms=1.25
case "$job" in *//ms=*) ms=${job#*//ms=}; ms=${ms%%//*} ;; esac
ci=
case "$job" in
    *//ci=*) ci=${job#*//ci=}; ci=${ci%%//*}; ci='"ci_low_ms":'"${ci%-*}"',"ci_high_ms":'"${ci#*-}," ;;
esac
deterministic=true
case "$job" in *//random*) deterministic=false ;; esac
flags=
case "$job" in *//flag*) flags='"faster-than-hardware: n=4096"' ;; esac
say '{"status":"BENCHMARKING","message":"Measuring","total_tests":1}'
say '{"status":"BENCHMARK_RESULT","result":{"test_id":1,"name":"n=4096","runtime_ms":'"$ms"',"gbytes_per_s":2.0},"total_tests":1}'
say '{"status":"BENCHMARKED","test_results":[{"test_id":1,"runtime_ms":'"$ms"',"counts":{"instructions":640}}],"avg_runtime_ms":'"$ms"','"$ci"'"avg_gflops":3.5,"total_tests":1,"emulated":true,"deterministic":'"$deterministic"',"flags":['"$flags"']}'
