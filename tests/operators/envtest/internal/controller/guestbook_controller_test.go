package controller

import (
	"io"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	webappv1 "sampan.test/guestbook/api/v1"
)

func newBook(namespace, title string) *webappv1.Guestbook {
	return &webappv1.Guestbook{
		ObjectMeta: metav1.ObjectMeta{Name: "visitors", Namespace: namespace},
		Spec:       webappv1.GuestbookSpec{Title: title, Replicas: 1},
	}
}

func pageOf(book *webappv1.Guestbook) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: book.Name + "-page", Namespace: book.Namespace}}
}

// exists returns whether the object can be read. Another error than "not found" fails the spec.
func exists(object client.Object) func(Gomega) bool {
	return func(g Gomega) bool {
		err := k8sClient.Get(ctx, client.ObjectKeyFromObject(object), object)
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err == nil
	}
}

var _ = Describe("Guestbook", func() {
	var book *webappv1.Guestbook

	BeforeEach(func() {
		book = newBook(newNamespace(), "hello")
	})

	It("gets a page and becomes available", func() {
		Expect(k8sClient.Create(ctx, book)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(book), book)).To(Succeed())
			g.Expect(meta.IsStatusConditionTrue(book.Status.Conditions, "Available")).To(BeTrue())
		}).Should(Succeed())
		page := pageOf(book)
		Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(page), page)).To(Succeed())
		Expect(page.Data).To(HaveKeyWithValue("title", "hello"))
		Expect(metav1.IsControlledBy(page, book)).To(BeTrue())
	})

	It("gets a deleted page again", func() {
		Expect(k8sClient.Create(ctx, book)).To(Succeed())
		page := pageOf(book)
		Eventually(exists(page)).Should(BeTrue())
		uid := page.UID
		Expect(k8sClient.Delete(ctx, page)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(k8sClient.Get(ctx, client.ObjectKeyFromObject(page), page)).To(Succeed())
			g.Expect(page.UID).NotTo(Equal(uid))
		}).Should(Succeed())
	})

	It("is validated by its schema, its rules and its webhook", func() {
		long := newBook(book.Namespace, "a title of more than forty characters is too long")
		Expect(apierrors.IsInvalid(k8sClient.Create(ctx, long))).To(BeTrue())
		Expect(k8sClient.Create(ctx, newBook(book.Namespace, "forbidden"))).To(MatchError(ContainSubstring("this title is taken")))
		Expect(k8sClient.Create(ctx, book)).To(Succeed())
		Expect(book.Spec.Replicas).To(Equal(int32(1)))
		change := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"title":"another"}}`))
		Expect(k8sClient.Patch(ctx, book, change)).To(MatchError(ContainSubstring("title is immutable")))
	})

	It("is protected by RBAC from a user of the environment", func() {
		user, err := testEnv.AddUser(envtest.User{Name: "visitor", Groups: []string{"guests"}}, &rest.Config{})
		Expect(err).NotTo(HaveOccurred())
		visitor, err := client.New(user.Config(), client.Options{Scheme: scheme.Scheme})
		Expect(err).NotTo(HaveOccurred())
		Expect(apierrors.IsForbidden(visitor.Create(ctx, book))).To(BeTrue())
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "guestbook-editor-"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{webappv1.GroupVersion.Group}, Resources: []string{"guestbooks"}, Verbs: []string{"create"}},
			},
		}
		Expect(k8sClient.Create(ctx, role)).To(Succeed())
		Expect(k8sClient.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "guests", Namespace: book.Namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "guests"}},
		})).To(Succeed())
		Eventually(func() error { return visitor.Create(ctx, book) }).Should(Succeed())
	})

	It("is printed by the kubectl of the environment", func() {
		Expect(k8sClient.Create(ctx, book)).To(Succeed())
		user, err := testEnv.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
		Expect(err).NotTo(HaveOccurred())
		kubectl, err := user.Kubectl()
		Expect(err).NotTo(HaveOccurred())
		stdout, stderr, err := kubectl.Run("get", "guestbooks", "-n", book.Namespace, "-o", "name")
		errors, _ := io.ReadAll(stderr)
		Expect(err).NotTo(HaveOccurred(), string(errors))
		Expect(io.ReadAll(stdout)).To(BeEquivalentTo("guestbook.webapp.example.com/visitors\n"))
	})

	It("takes its page along when it is deleted", func() {
		if !hasControllers() {
			Skip("the garbage collector runs only with SAMPAN_ENVTEST_CONTROLLERS")
		}
		Expect(k8sClient.Create(ctx, book)).To(Succeed())
		page := pageOf(book)
		Eventually(exists(page)).Should(BeTrue())
		Expect(k8sClient.Delete(ctx, book)).To(Succeed())
		Eventually(exists(page)).Should(BeFalse())
	})

	It("is deleted together with its namespace", func() {
		if !hasControllers() {
			Skip("the namespace controller runs only with SAMPAN_ENVTEST_CONTROLLERS")
		}
		Expect(k8sClient.Create(ctx, book)).To(Succeed())
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: book.Namespace}}
		Expect(k8sClient.Delete(ctx, namespace)).To(Succeed())
		Eventually(exists(namespace)).Should(BeFalse())
		Expect(exists(book)(NewWithT(GinkgoT()))).To(BeFalse())
	})
})

var _ = Describe("Environments", func() {
	It("run in parallel, each with objects of its own", func() {
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				defer GinkgoRecover()
				other := &envtest.Environment{CRDDirectoryPaths: newEnvironment().CRDDirectoryPaths}
				config, err := other.Start()
				Expect(err).NotTo(HaveOccurred())
				defer func() { Expect(other.Stop()).To(Succeed()) }()
				own, err := client.New(config, client.Options{Scheme: scheme.Scheme})
				Expect(err).NotTo(HaveOccurred())
				Expect(own.Create(ctx, newBook("default", "here"))).To(Succeed())
				var books webappv1.GuestbookList
				Expect(own.List(ctx, &books)).To(Succeed())
				Expect(books.Items).To(HaveLen(1))
			})
		}
		group.Wait()
	})

	It("keep their objects when the API server starts again", func() {
		env := &envtest.Environment{}
		_, err := env.Start()
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(env.Stop()).To(Succeed()) }()
		server := env.ControlPlane.APIServer
		create := func() error {
			user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
			Expect(err).NotTo(HaveOccurred())
			own, err := client.New(user.Config(), client.Options{Scheme: scheme.Scheme})
			Expect(err).NotTo(HaveOccurred())
			return own.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"}})
		}
		Expect(create()).To(Succeed())
		Expect(server.Stop()).To(Succeed())
		Expect(server.Start()).To(Succeed())
		Expect(apierrors.IsAlreadyExists(create())).To(BeTrue())
	})
})
