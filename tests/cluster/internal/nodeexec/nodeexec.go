// Package nodeexec is the first thing that runs in a container's process: it
// arranges what the process sees and who it is, then becomes the container's
// command.
//
// It works in the package's init, before main: the binary also carries a whole
// control plane, whose packages take far longer to initialise than a container
// needs to start. Hence it may import nothing but the standard library and
// x/sys.
package nodeexec

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Name is the argv[0] under which the node starts this binary for a container.
const Name = "node-exec"

// The two descriptors that the node hands over: the Spec is read from the one,
// an error is written to the other. The second closes with a successful exec,
// so that its end without a byte means "started".
const (
	specFD  = 3
	errorFD = 4
)

// Spec says what to become.
type Spec struct {
	// Command is looked up in the PATH of Env when it holds no slash.
	Command []string
	Env     []string
	Dir     string

	// Root is an empty directory on which the container's view of the file
	// system is put together. Without it the process keeps the one that it
	// was started in, and Mounts and Image mean nothing.
	Root   string
	Mounts []Mount
	// Image is the directory shown as ImagePath.
	Image string

	// Credentials is nil to stay who the node is.
	Credentials *Credentials
	// AdoptOrphans makes up for not being the first process of a namespace.
	AdoptOrphans bool
	// DropAmbient takes away what an unprivileged node passes for mounting.
	DropAmbient     bool
	NoNewPrivileges bool
}

// Mount shows Source, a file or directory of the host, at Target.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Credentials are numeric, as a pod's security context has them.
type Credentials struct {
	UID, GID int
	Groups   []int
}

// ImagePath is where a container finds its image.
const ImagePath = "/image"

func init() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	failure := os.NewFile(errorFD, "error")
	err := run()
	fmt.Fprint(failure, err)
	os.Exit(128)
}

// run returns only when it fails.
func run() error {
	var spec Spec
	in := os.NewFile(specFD, "spec")
	data, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	in.Close()
	if err := json.Unmarshal(data, &spec); err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	if spec.Root != "" {
		if err := enterRoot(spec); err != nil {
			return err
		}
	}
	return become(spec)
}
