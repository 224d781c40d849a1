// The harness of a solution of the host shape. It maps the judge's buffers, and calls the solution. It shares its process with the
// solution, so the judge believes nothing that it replies. message.rs describes the requests. The judge prepends the declarations of
// `solution` and `call_solution` to this file.

#include <sys/socket.h>
#include <unistd.h>

namespace remora_harness {

constexpr int kLine = 3;
constexpr size_t kMost = 1u << 20;

struct Buffer {
    uint32_t id;
    char* address;
};

struct Bytes {
    const unsigned char* at;
    const unsigned char* end;

    template <typename T>
    T take() {
        T value{};
        if (size_t(end - at) < sizeof(T)) {
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

static void put_text(const char* text) { reply.insert(reply.end(), text, text + strlen(text)); }

static bool good(hipError_t code, const char* call) {
    if (code == hipSuccess) return true;
    int32_t number = int32_t(code);
    const unsigned char* at = reinterpret_cast<const unsigned char*>(&number);
    reply.assign(1, 1);
    reply.insert(reply.end(), at, at + sizeof number);
    put_text(call);
    put_text(": ");
    put_text(hipGetErrorName(code));
    return false;
}

#define GOOD(call) good(call, #call)

static void open_buffer(Bytes bytes) {
    int device = int(bytes.take<uint32_t>());
    Buffer buffer{bytes.take<uint32_t>(), nullptr};
    hipIpcMemHandle_t handle = bytes.take<hipIpcMemHandle_t>();
    void* address = nullptr;
    if (!GOOD(hipSetDevice(device))) return;
    if (!GOOD(hipIpcOpenMemHandle(&address, handle, hipIpcMemLazyEnablePeerAccess))) return;
    if (!GOOD(hipSetDevice(0))) return;
    buffer.address = static_cast<char*>(address);
    buffers.push_back(buffer);
}

static void close_buffer(uint32_t id) {
    for (size_t index = 0; index < buffers.size(); ++index)
        if (buffers[index].id == id) {
            char* address = buffers[index].address;
            buffers.erase(buffers.begin() + long(index));
            GOOD(hipIpcCloseMemHandle(address));
            return;
        }
}

static void call(Bytes bytes) {
    uint64_t slots[256] = {};
    uint32_t number = bytes.take<uint32_t>();
    for (uint32_t index = 0; index < number && index < 256; ++index) {
        uint32_t id = bytes.take<uint32_t>();
        slots[index] = bytes.take<uint64_t>();
        if (id == UINT32_MAX) continue;
        for (const Buffer& buffer : buffers)
            if (buffer.id == id) slots[index] += uint64_t(buffer.address);
    }
    call_solution(slots);
    if (!GOOD(hipGetLastError())) return;
    int devices = 1;
    if (!GOOD(hipGetDeviceCount(&devices))) return;
    // Ends with the first device as the current one.
    for (int device = devices - 1; device >= 0; --device)
        if (!GOOD(hipSetDevice(device)) || !GOOD(hipDeviceSynchronize())) return;
}

static void serve(Bytes bytes) {
    switch (bytes.take<unsigned char>()) {
    case 1:
        GOOD(hipDeviceSynchronize());
        return;
    case 2:
        return open_buffer(bytes);
    case 3:
        return close_buffer(bytes.take<uint32_t>());
    case 4:
        return call(bytes);
    default:
        reply.assign(1, 2);
        put_text("invalid request from the judge");
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
