// The harness of a solution of the host shape. It executes the judge's requests from descriptor 3 and decides nothing itself.
// message.rs describes the protocol. The judge prepends the declarations of `solution` and `call_solution`
// and the number of counters, `kCounts`, to this file.

#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace remora_harness {

constexpr int kLine = 3;
constexpr size_t kMost = 72u << 20;

struct Buffer {
    uint32_t id;
    char* address;
    uint64_t bytes;
};

struct Bytes {
    const unsigned char* at;
    const unsigned char* end;
    bool whole = true;

    template <typename T>
    T take() {
        T value{};
        if (size_t(end - at) < sizeof(T)) {
            whole = false;
            at = end;
            return value;
        }
        memcpy(&value, at, sizeof(T));
        at += sizeof(T);
        return value;
    }
};

static std::vector<Buffer> buffers;
static std::vector<unsigned char> reply;
static char* scratch = nullptr;
static uint64_t scratch_bytes = 0;
static hipEvent_t events[3];
static bool have_events = false;
static float idle_ms = 0;

static bool receive(void* to, size_t bytes) {
    char* at = static_cast<char*>(to);
    while (bytes > 0) {
        ssize_t got = read(kLine, at, bytes);
        if (got <= 0) return false;
        at += got;
        bytes -= size_t(got);
    }
    return true;
}

static bool transmit(const void* from, size_t bytes) {
    const char* at = static_cast<const char*>(from);
    while (bytes > 0) {
        ssize_t sent = send(kLine, at, bytes, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
        bytes -= size_t(sent);
    }
    return true;
}

template <typename T>
static void put(T value) {
    const unsigned char* at = reinterpret_cast<const unsigned char*>(&value);
    reply.insert(reply.end(), at, at + sizeof(T));
}

static void put_text(const char* text) { reply.insert(reply.end(), text, text + strlen(text)); }

static bool refuse(const char* text) {
    reply.assign(1, 2);
    put_text(text);
    return false;
}

static bool good(hipError_t code, const char* call) {
    if (code == hipSuccess) return true;
    reply.assign(1, 1);
    put(int32_t(code));
    put_text(call);
    put_text(": ");
    put_text(hipGetErrorName(code));
    return false;
}

#define GOOD(call) good(call, #call)

static char* place(uint32_t id, uint64_t offset, uint64_t bytes) {
    for (const Buffer& buffer : buffers)
        if (buffer.id == id && offset <= buffer.bytes && bytes <= buffer.bytes - offset) return buffer.address + offset;
    refuse("the range is outside of the buffer");
    return nullptr;
}

static double now_ms() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static bool fill(Bytes& bytes) {
    uint32_t count = bytes.take<uint32_t>();
    for (uint32_t index = 0; index < count && bytes.whole; ++index) {
        uint32_t id = bytes.take<uint32_t>(), pattern = bytes.take<uint32_t>();
        uint64_t offset = bytes.take<uint64_t>(), words = bytes.take<uint64_t>();
        char* at = place(id, offset, words * 4);
        if (!at || (words && !GOOD(hipMemsetD32Async(at, int(pattern), words, nullptr)))) return false;
    }
    return true;
}

// Measures, with device events, the time of an empty wait for an idle device.
static bool prepare_events() {
    if (have_events) return true;
    for (hipEvent_t& event : events)
        if (!GOOD(hipEventCreate(&event))) return false;
    for (int round = 0; round < 5; ++round) {
        float took = 0;
        if (!GOOD(hipEventRecord(events[0], nullptr)) || !GOOD(hipDeviceSynchronize()) ||
            !GOOD(hipEventRecord(events[1], nullptr)) || !GOOD(hipDeviceSynchronize()) ||
            !GOOD(hipEventElapsedTime(&took, events[0], events[1])))
            return false;
        if (took > idle_ms) idle_ms = took;
    }
    have_events = true;
    return true;
}

extern "C" __attribute__((weak)) int remoraCountersBegin();
extern "C" __attribute__((weak)) int remoraCountersEnd(uint64_t* counts, size_t room);

static bool call(Bytes& bytes) {
    for (int index = 0; index < 7; ++index) bytes.take<uint32_t>();
    bool count = bytes.take<uint32_t>() != 0;
    uint64_t flush = bytes.take<uint64_t>();
    if (!fill(bytes)) return false;
    uint64_t slots[256] = {};
    uint32_t number = bytes.take<uint32_t>();
    for (uint32_t index = 0; index < number && index < 256; ++index) {
        uint32_t id = bytes.take<uint32_t>();
        uint64_t value = bytes.take<uint64_t>();
        if (id != UINT32_MAX) {
            char* at = place(id, value, 0);
            if (!at) return false;
            value = uint64_t(at);
        }
        slots[index] = value;
    }
    if (flush) {
        if (scratch_bytes < flush) {
            if (!GOOD(hipMalloc(reinterpret_cast<void**>(&scratch), flush))) return false;
            scratch_bytes = flush;
        }
        if (!GOOD(hipMemsetD32Async(scratch, 0x5a5a5a5a, flush / 4, nullptr))) return false;
    }
    if (!prepare_events() || !GOOD(hipDeviceSynchronize())) return false;
    bool counting = count && remoraCountersBegin && remoraCountersEnd && remoraCountersBegin() == 0;
    double begun = now_ms();
    if (!GOOD(hipEventRecord(events[0], nullptr))) return false;
    call_solution(slots);
    bool launched = GOOD(hipGetLastError()) && GOOD(hipEventRecord(events[1], nullptr)) && GOOD(hipDeviceSynchronize());
    double host_ms = now_ms() - begun;
    uint64_t counts[kCounts] = {};
    bool counted = counting && remoraCountersEnd(counts, kCounts) == 0;
    if (!launched || !GOOD(hipEventRecord(events[2], nullptr)) || !GOOD(hipDeviceSynchronize())) return false;
    float stream_ms = 0, all_ms = 0;
    if (!GOOD(hipEventElapsedTime(&stream_ms, events[0], events[1])) ||
        !GOOD(hipEventElapsedTime(&all_ms, events[0], events[2])))
        return false;
    // Work on streams that the default stream does not wait for shows up in the host time until the device is idle.
    double device_ms = all_ms - stream_ms > 3 * idle_ms + 0.05f ? all_ms : stream_ms;
    put(device_ms);
    put(host_ms);
    put(static_cast<unsigned char>(counted));
    if (counted)
        for (uint64_t value : counts) put(value);
    return true;
}

static void serve(Bytes bytes) {
    switch (bytes.take<unsigned char>()) {
    case 1: {
        char name[256] = {};
        if (GOOD(hipDeviceGetName(name, sizeof name - 1, 0))) put_text(name);
        return;
    }
    case 2:
        return;
    case 3: {
        Buffer buffer{bytes.take<uint32_t>(), nullptr, bytes.take<uint64_t>()};
        if (GOOD(hipMalloc(reinterpret_cast<void**>(&buffer.address), buffer.bytes))) buffers.push_back(buffer);
        return;
    }
    case 4: {
        uint32_t id = bytes.take<uint32_t>();
        for (size_t index = 0; index < buffers.size(); ++index)
            if (buffers[index].id == id) {
                char* address = buffers[index].address;
                buffers.erase(buffers.begin() + long(index));
                GOOD(hipFree(address));
                return;
            }
        return;
    }
    case 5: {
        uint32_t id = bytes.take<uint32_t>();
        uint64_t offset = bytes.take<uint64_t>();
        uint32_t length = bytes.take<uint32_t>();
        if (size_t(bytes.end - bytes.at) < length) return void(refuse("truncated request from the judge"));
        if (char* at = place(id, offset, length)) GOOD(hipMemcpy(at, bytes.at, length, hipMemcpyHostToDevice));
        return;
    }
    case 6: {
        uint32_t id = bytes.take<uint32_t>();
        uint64_t offset = bytes.take<uint64_t>(), length = bytes.take<uint64_t>();
        char* at = place(id, offset, length);
        if (!at || length >= kMost) return;
        reply.resize(1 + length);
        GOOD(hipMemcpy(reply.data() + 1, at, length, hipMemcpyDeviceToHost));
        return;
    }
    case 7:
        fill(bytes);
        return;
    case 8:
        call(bytes);
        return;
    default:
        refuse("invalid request from the judge");
    }
}

}  // namespace remora_harness

int main() {
    using namespace remora_harness;
    std::vector<unsigned char> frame;
    for (;;) {
        uint32_t length = 0;
        if (!receive(&length, sizeof length) || length > kMost) break;
        frame.resize(length);
        if (!receive(frame.data(), length)) break;
        reply.assign(1, 0);
        serve(Bytes{frame.data(), frame.data() + length});
        length = uint32_t(reply.size());
        if (!transmit(&length, sizeof length) || !transmit(reply.data(), reply.size())) break;
    }
    fflush(nullptr);
    _exit(0);
}
