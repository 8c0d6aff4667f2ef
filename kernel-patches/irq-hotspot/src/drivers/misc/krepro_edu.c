// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU's educational PCI device as an interrupt source with a known answer.
 *
 * The device raises its interrupt when it is told to, by this driver or by
 * a program of root that maps BAR 0 (resource0). The handler does a chosen
 * amount of work. See Documentation/ABI/testing/sysfs-driver-krepro-edu.
 */

#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#define DRV_NAME		"krepro-edu"

#define EDU_VENDOR_ID		0x1234
#define EDU_DEVICE_ID		0x11e8

#define EDU_ID			0x00	/* RR.rr.00ed, version RR.rr */
#define EDU_IRQ_STATUS		0x24	/* set bits keep the interrupt up */
#define EDU_IRQ_RAISE		0x60	/* written bits are set in the status */
#define EDU_IRQ_ACK		0x64	/* written bits are cleared */

/* The status bit of this driver. User space may use others. */
#define EDU_IRQ_KREPRO		0x1

/* Less than 100 ms with interrupts off, even on a slow emulator. */
#define KREPRO_EDU_MAX_LOOPS	5000000

/* How much of a long piece of work is done without looking for signals. */
#define KREPRO_EDU_CHUNK	100000UL

/*
 * Functions below are aligned to 64 bytes if their hits are to be told apart
 * from those of their neighbours: they share no profile bucket up to profile=6.
 */

struct krepro_edu {
	void __iomem *regs;
	struct mutex raise_mutex;	/* one raised interrupt at a time */
	unsigned int handler_loops;
	bool irqs_on;
	/* Written by the handler, which never runs twice at a time. */
	unsigned long handled;
};

/*
 * Work: exactly two instructions per loop, whatever the compiler. @loops must
 * not be 0. The comment in the assembly differs from the one in
 * krepro_edu_task_work(), lest the compiler merge the two.
 */
static noinline __aligned(64) void krepro_edu_work(unsigned int loops)
{
	asm volatile("# in the interrupt handler\n"
		     "1:	dec	%0\n"
		     "	jnz	1b\n"
		     : "+r" (loops) : : "cc");
}

static noinline __aligned(64) void krepro_edu_task_work(unsigned int loops)
{
	asm volatile("# in task context\n"
		     "1:	dec	%0\n"
		     "	jnz	1b\n"
		     : "+r" (loops) : : "cc");
}

static noinline __aligned(64) irqreturn_t krepro_edu_irq(int irq, void *dev_id)
{
	struct krepro_edu *edu = dev_id;
	unsigned int loops = READ_ONCE(edu->handler_loops);
	u32 status;

	status = readl(edu->regs + EDU_IRQ_STATUS);
	if (!status)
		return IRQ_NONE;
	writel(status, edu->regs + EDU_IRQ_ACK);

	if (loops) {
		/* As Linux 2.4 did for handlers without SA_INTERRUPT. */
		bool irqs_on = READ_ONCE(edu->irqs_on);

		if (irqs_on)
			local_irq_enable();
		krepro_edu_work(loops);
		if (irqs_on)
			local_irq_disable();
	}

	WRITE_ONCE(edu->handled, edu->handled + 1);
	return IRQ_HANDLED;
}

/*
 * Raise one interrupt and wait until it has been handled. Nothing is called
 * in between: an interrupt that this CPU takes interrupts this function.
 */
static noinline __aligned(64) int krepro_edu_raise(struct krepro_edu *edu)
{
	unsigned long handled = READ_ONCE(edu->handled);
	unsigned long end = jiffies + HZ;

	writel(EDU_IRQ_KREPRO, edu->regs + EDU_IRQ_RAISE);
	while (READ_ONCE(edu->handled) == handled) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		cpu_relax();
	}
	return 0;
}

static __aligned(64) ssize_t raise_store(struct device *dev,
					 struct device_attribute *attr,
					 const char *buf, size_t count)
{
	struct krepro_edu *edu = dev_get_drvdata(dev);
	unsigned int n;
	int ret;

	ret = kstrtouint(buf, 0, &n);
	if (ret)
		return ret;

	ret = mutex_lock_killable(&edu->raise_mutex);
	if (ret)
		return ret;
	while (n--) {
		ret = krepro_edu_raise(edu);
		if (ret)
			break;
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		cond_resched();
	}
	mutex_unlock(&edu->raise_mutex);

	return ret ?: count;
}
static DEVICE_ATTR_WO(raise);

static ssize_t work_store(struct device *dev, struct device_attribute *attr,
			  const char *buf, size_t count)
{
	unsigned long n;
	int ret;

	ret = kstrtoul(buf, 0, &n);
	if (ret)
		return ret;

	while (n) {
		unsigned long chunk = min(n, KREPRO_EDU_CHUNK);

		krepro_edu_task_work(chunk);
		n -= chunk;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}

	return count;
}
static DEVICE_ATTR_WO(work);

static ssize_t handler_loops_show(struct device *dev,
				  struct device_attribute *attr, char *buf)
{
	struct krepro_edu *edu = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%u\n", READ_ONCE(edu->handler_loops));
}

static ssize_t handler_loops_store(struct device *dev,
				   struct device_attribute *attr,
				   const char *buf, size_t count)
{
	struct krepro_edu *edu = dev_get_drvdata(dev);
	unsigned int loops;
	int ret;

	ret = kstrtouint(buf, 0, &loops);
	if (ret)
		return ret;
	if (loops > KREPRO_EDU_MAX_LOOPS)
		return -ERANGE;

	WRITE_ONCE(edu->handler_loops, loops);
	return count;
}
static DEVICE_ATTR_ADMIN_RW(handler_loops);

static ssize_t irqs_on_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	struct krepro_edu *edu = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%d\n", READ_ONCE(edu->irqs_on));
}

static ssize_t irqs_on_store(struct device *dev, struct device_attribute *attr,
			     const char *buf, size_t count)
{
	struct krepro_edu *edu = dev_get_drvdata(dev);
	bool irqs_on;
	int ret;

	ret = kstrtobool(buf, &irqs_on);
	if (ret)
		return ret;

	WRITE_ONCE(edu->irqs_on, irqs_on);
	return count;
}
static DEVICE_ATTR_ADMIN_RW(irqs_on);

static ssize_t handled_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	struct krepro_edu *edu = dev_get_drvdata(dev);

	return sysfs_emit(buf, "%lu\n", READ_ONCE(edu->handled));
}
static DEVICE_ATTR_ADMIN_RO(handled);

static struct attribute *krepro_edu_attrs[] = {
	&dev_attr_handler_loops.attr,
	&dev_attr_irqs_on.attr,
	&dev_attr_handled.attr,
	&dev_attr_raise.attr,
	&dev_attr_work.attr,
	NULL
};
ATTRIBUTE_GROUPS(krepro_edu);

static int krepro_edu_probe(struct pci_dev *pdev,
			    const struct pci_device_id *id)
{
	struct krepro_edu *edu;
	int ret;

	edu = kzalloc(sizeof(*edu), GFP_KERNEL);
	if (!edu)
		return -ENOMEM;
	mutex_init(&edu->raise_mutex);

	ret = pci_enable_device_mem(pdev);
	if (ret)
		goto err_free;

	ret = pci_request_region(pdev, 0, DRV_NAME);
	if (ret)
		goto err_disable;

	edu->regs = pci_ioremap_bar(pdev, 0);
	if (!edu->regs) {
		ret = -ENOMEM;
		goto err_release;
	}

	if ((readl(edu->regs + EDU_ID) & 0xffff) != 0xed) {
		ret = -ENODEV;
		goto err_unmap;
	}

	/* Whatever was raised before there was a handler does not count. */
	writel(~0, edu->regs + EDU_IRQ_ACK);
	pci_set_drvdata(pdev, edu);

	/* Its handler is what is measured: not even threadirqs may move it. */
	ret = request_irq(pdev->irq, krepro_edu_irq,
			  IRQF_SHARED | IRQF_NO_THREAD, DRV_NAME, edu);
	if (ret)
		goto err_unmap;
	pci_intx(pdev, 1);

	pci_info(pdev, "edu device at irq %d\n", pdev->irq);
	return 0;

err_unmap:
	iounmap(edu->regs);
err_release:
	pci_release_region(pdev, 0);
err_disable:
	pci_disable_device(pdev);
err_free:
	kfree(edu);
	return ret;
}

/* The attributes are gone by now, and with them all who raise and wait. */
static void krepro_edu_remove(struct pci_dev *pdev)
{
	struct krepro_edu *edu = pci_get_drvdata(pdev);

	/*
	 * The line may be shared and user space can go on raising: from here on
	 * the device must not drive it, or nobody would care.
	 */
	pci_intx(pdev, 0);
	free_irq(pdev->irq, edu);
	writel(~0, edu->regs + EDU_IRQ_ACK);

	iounmap(edu->regs);
	pci_release_region(pdev, 0);
	pci_disable_device(pdev);
	kfree(edu);
}

static const struct pci_device_id krepro_edu_ids[] = {
	{ PCI_DEVICE(EDU_VENDOR_ID, EDU_DEVICE_ID) },
	{ }
};

static struct pci_driver krepro_edu_driver = {
	.name		= DRV_NAME,
	.id_table	= krepro_edu_ids,
	.probe		= krepro_edu_probe,
	.remove		= krepro_edu_remove,
	.dev_groups	= krepro_edu_groups,
};
builtin_pci_driver(krepro_edu_driver);
