// Command control-plane is etcd, kube-apiserver and kube-controller-manager in
// one binary, chosen by the name it is called by. One binary, because linking
// Kubernetes is the slow part of the build. kube-proxy is not in it: its memory
// and start time are compared with ours, so it must be what operators run.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	var command *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	default:
		fmt.Fprintf(os.Stderr, "called as %q: call it through a link named etcd, kube-apiserver or kube-controller-manager\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}
