package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"beckon.dev/beckon/tests/cluster/internal/nodeexec"
)

// best is the isolation of the machine that runs the tests.
func best(t *testing.T) Isolation {
	t.Helper()
	i, err := Detect(t.TempDir())
	if err != nil {
		t.Logf("not isolated fully: %v", err)
	}
	return i
}

func run(t *testing.T, i Isolation, spec nodeexec.Spec) (string, int) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	spec.Root = t.TempDir()
	spec.Env = append(spec.Env, "PATH="+i.PATH(spec.Image))
	p, err := i.Start(spec, out, out)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	data, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(data), p.ExitCode()
}

func TestMountsLeaveTheHostAlone(t *testing.T) {
	i := best(t)
	if i == None {
		t.Skip("no mount namespaces here")
	}
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	targets := []string{"/etc/none-such/tls", "/none-such", "/var/run/secrets/none-such", "/dev/shm"}
	for _, target := range targets {
		script := "cat " + target + "/file && echo >" + target + "/new && ls /etc/passwd /dev/null >/dev/null && echo $$"
		out, code := run(t, i, nodeexec.Spec{
			Command: []string{"sh", "-c", script},
			Mounts:  []nodeexec.Mount{{Source: source, Target: target}},
		})
		if code != 0 || out != "content1\n" {
			t.Errorf("%s: exit code %d: %q", target, code, out)
		}
		if _, err := os.Stat(filepath.Join(target, "file")); err == nil {
			t.Errorf("%s: the mount is visible on the host", target)
		}
		if err := os.Remove(filepath.Join(source, "new")); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestReadOnlyMount(t *testing.T) {
	i := best(t)
	if i == None {
		t.Skip("no mount namespaces here")
	}
	out, code := run(t, i, nodeexec.Spec{
		Command: []string{"sh", "-c", "echo >/none-such/file"},
		Mounts:  []nodeexec.Mount{{Source: t.TempDir(), Target: "/none-such", ReadOnly: true}},
	})
	if code == 0 || !strings.Contains(out, "Read-only") {
		t.Errorf("exit code %d: %q", code, out)
	}
}

func TestImageLinks(t *testing.T) {
	image, hidden := t.TempDir(), t.TempDir()
	for _, dir := range []string{hidden, image} {
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(hidden, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho $1 from $0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(image, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"say": "/bin/echo", "script": script} {
		if err := os.Symlink(target, filepath.Join(image, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	i := best(t)
	command := []string{"sh", "-c", "readlink $(command -v say); script hello"}
	out, code := run(t, i, nodeexec.Spec{Command: command, Image: image, Credentials: &nodeexec.Credentials{UID: 10001, GID: 10001}})
	want := "/usr/bin/echo\nhello from /image/bin/script\n"
	if i == None {
		want = "/bin/echo\nhello from " + image + "/bin/script\n"
	}
	if code != 0 || out != want {
		t.Errorf("exit code %d: %q", code, out)
	}
}

func TestCredentials(t *testing.T) {
	i := best(t)
	if i == None {
		t.Skip("no other users here")
	}
	out, code := run(t, i, nodeexec.Spec{
		Command:         []string{"sh", "-c", "id -u; id -g; grep NoNewPrivs /proc/self/status; grep CapEff /proc/self/status"},
		Credentials:     &nodeexec.Credentials{UID: 10001, GID: 10002},
		NoNewPrivileges: true,
	})
	if want := "10001\n10002\nNoNewPrivs:\t1\nCapEff:\t0000000000000000\n"; code != 0 || out != want {
		t.Errorf("exit code %d: %q", code, out)
	}
}

func TestStartError(t *testing.T) {
	i := best(t)
	_, err := i.Start(nodeexec.Spec{Command: []string{"none-such"}, Root: t.TempDir()}, nil, nil)
	if err == nil || err.Error() != `exec: "none-such": executable file not found in $PATH` {
		t.Errorf("got %v", err)
	}
}

func TestStopTakesDescendantsAlong(t *testing.T) {
	if err := adoptOrphans(); err != nil {
		t.Fatal(err)
	}
	for _, i := range []Isolation{best(t), None} {
		marker := filepath.Join(t.TempDir(), "alive")
		// The main process ends at SIGTERM, what it has started does not.
		script := `trap 'exit 7' TERM; (trap '' TERM; setsid sh -c 'while :; do date >` + marker + `; sleep 0.02; done') & while :; do sleep 0.02; done`
		p, err := i.Start(nodeexec.Spec{Command: []string{"/bin/sh", "-c", script}, Root: t.TempDir()}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		p.Stop(5 * time.Second)
		if p.ExitCode() != 7 {
			t.Errorf("%s: exit code %d", i, p.ExitCode())
		}
		os.Remove(marker)
		time.Sleep(100 * time.Millisecond)
		if _, err := os.Stat(marker); err == nil {
			t.Errorf("%s: a descendant survived", i)
		}
	}
}

func TestGraceThenKill(t *testing.T) {
	i := best(t)
	p, err := i.Start(nodeexec.Spec{Command: []string{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"}, Root: t.TempDir()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	before := time.Now()
	p.Stop(300 * time.Millisecond)
	if took := time.Since(before); p.ExitCode() != 128+int(syscall.SIGKILL) || took < 300*time.Millisecond || took > 2*time.Second {
		t.Errorf("exit code %d after %s", p.ExitCode(), took)
	}
}

func TestExec(t *testing.T) {
	i := best(t)
	if i == User {
		t.Skip("exec needs root")
	}
	p, err := i.Start(nodeexec.Spec{
		Command: []string{"/bin/sh", "-c", "while :; do sleep 1; done"},
		Root:    t.TempDir(),
		Mounts:  []nodeexec.Mount{{Source: t.TempDir(), Target: "/none-such"}},
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	var out bytes.Buffer
	command := []string{"/bin/sh", "-c", "cat; test -d /none-such && echo seen; exit 3"}
	e, err := p.Exec(nodeexec.Spec{Command: command}, Streams{Stdin: strings.NewReader("in "), Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	<-e.Done()
	if want := map[bool]string{true: "in ", false: "in seen\n"}[i == None]; e.ExitCode() != 3 || out.String() != want {
		t.Errorf("exit code %d: %q", e.ExitCode(), out.String())
	}
}

func TestTranslate(t *testing.T) {
	mounts := []nodeexec.Mount{{Source: "/host/tmp", Target: "/tmp"}, {Source: "/host/tls", Target: "/etc/tls"}, {Source: "/host/deep", Target: "/etc/tls/deep"}}
	spec := translate(nodeexec.Spec{
		Command: []string{"/tmp/x", "--cert=/etc/tls/tls.crt", "/tmpfile", "/x/tmp", "/etc/tls/deep/a:/tmp", "/etc/tls"},
		Mounts:  mounts,
	})
	want := []string{"/host/tmp/x", "--cert=/host/tls/tls.crt", "/tmpfile", "/x/tmp", "/host/deep/a:/host/tmp", "/host/tls"}
	for n := range want {
		if spec.Command[n] != want[n] {
			t.Errorf("got %q, want %q", spec.Command[n], want[n])
		}
	}
}
