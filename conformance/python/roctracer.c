/* Stand-ins for the two functions of AMD's tracing library (libroctracer64.so.4) that CuPy calls. Debian does not have the
 * library, and CuPy cannot be imported without it. They start and stop a trace; here they do nothing. */

void roctracer_start(void) {}
void roctracer_stop(void) {}
